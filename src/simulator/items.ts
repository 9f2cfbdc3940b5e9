import {
  type Item,
  ItemStatus,
  type Opaque,
  type Part,
  Phase,
  Role,
  type ToolCall,
  ToolKind,
} from '../gen/tollgate/v1/content_pb.ts';

/** The simulator's name as a provider, which its opaque blobs contain. */
export const simulatorProvider = 'simulator';

function opened(content: Item['content']): Item {
  return { $typeName: 'tollgate.v1.Item', id: '', status: ItemStatus.IN_PROGRESS, turn: 0, content };
}

/** Returns an assistant message without its parts. */
export function openedMessage(): Item {
  return opened({
    case: 'message',
    value: { $typeName: 'tollgate.v1.Message', role: Role.ASSISTANT, name: '', parts: [], phase: Phase.UNSPECIFIED },
  });
}

/** Returns a reasoning item without its parts. */
export function openedReasoning(): Item {
  return opened({
    case: 'reasoning',
    value: { $typeName: 'tollgate.v1.Reasoning', parts: [], opaque: [], redacted: false },
  });
}

/** A planned tool call. `arguments`: JSON for a function, any text for a custom tool. */
export type PlannedCall = Pick<ToolCall, 'callId' | 'name' | 'arguments'> & { readonly isCustom: boolean };

/** Returns a tool call without its arguments. */
export function openedCall(call: PlannedCall): Item {
  const kind = call.isCustom ? ToolKind.CUSTOM : ToolKind.FUNCTION;
  return opened({
    case: 'toolCall',
    value: { $typeName: 'tollgate.v1.ToolCall', callId: call.callId, name: call.name, kind, arguments: '' },
  });
}

function part(content: Part['content']): Part {
  return { $typeName: 'tollgate.v1.Part', content };
}

/** Returns a part without its text. */
export function openedPart(kind: 'text' | 'refusal' | 'reasoning' | 'summary'): Part {
  switch (kind) {
    case 'text':
      return part({
        case: 'text',
        value: { $typeName: 'tollgate.v1.TextPart', text: '', annotations: [], logprobs: [] },
      });
    case 'refusal':
      return part({ case: 'refusal', value: { $typeName: 'tollgate.v1.RefusalPart', text: '' } });
    case 'reasoning':
      return part({ case: 'reasoningText', value: { $typeName: 'tollgate.v1.ReasoningTextPart', text: '' } });
    case 'summary':
      return part({ case: 'summaryText', value: { $typeName: 'tollgate.v1.SummaryTextPart', text: '' } });
  }
}

/** Returns an opaque blob of the simulator. */
export function ownOpaque(kind: string, model: string, data: string): Opaque {
  return { $typeName: 'tollgate.v1.Opaque', provider: simulatorProvider, model, kind, data };
}
