import { type Item, ItemStatus, type Part, Phase, Role, ToolKind } from '../../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { delta, finished, itemClosed, itemOpened, partClosed, partOpened } from '../events.ts';
import type { EventStep } from './step.ts';

/** Small answers for the tests of the guard's steps. */

const item = (content: Item['content']): Item => ({
  $typeName: 'tollgate.v1.Item',
  id: '',
  status: ItemStatus.IN_PROGRESS,
  turn: 0,
  content,
});

const message = item({
  case: 'message',
  value: { $typeName: 'tollgate.v1.Message', role: Role.ASSISTANT, name: '', parts: [], phase: Phase.UNSPECIFIED },
});

const textPart: Part = {
  $typeName: 'tollgate.v1.Part',
  content: { case: 'text', value: { $typeName: 'tollgate.v1.TextPart', text: '', annotations: [], logprobs: [] } },
};

/** Returns the events of a text item with one part, in the given deltas. */
export function textItem(texts: readonly string[], at: { choice?: number; item?: number } = {}): GenerationEvent[] {
  const { choice = 0, item: index = 0 } = at;
  return [
    itemOpened(choice, index, message),
    partOpened(choice, [index, 0], textPart),
    ...texts.map(text => delta(choice, [index, 0], { kind: DeltaKind.TEXT, text })),
    partClosed(choice, [index, 0]),
    itemClosed(choice, index),
  ];
}

/** Returns the events of a complete function call. */
export function callItem(name: string, index: number, choice = 0): GenerationEvent[] {
  const value = {
    $typeName: 'tollgate.v1.ToolCall' as const,
    callId: `call_${index}`,
    name,
    kind: ToolKind.FUNCTION,
    arguments: '',
  };
  return [
    itemOpened(choice, index, item({ case: 'toolCall', value })),
    delta(choice, [index, 0], { kind: DeltaKind.ARGUMENTS, text: '{}' }),
    itemClosed(choice, index),
  ];
}

/** Returns the event that ends a choice. */
export function stop(reason: FinishReason = FinishReason.STOP, choice = 0): GenerationEvent {
  return finished(choice, reason, { native: 'native' });
}

/** Returns the events that a step passes on. */
export function through(make: (next: EventStep) => EventStep, events: readonly GenerationEvent[]): GenerationEvent[] {
  const out: GenerationEvent[] = [];
  const step = make(out);
  for (const event of events) step.push(event);
  return out;
}

/** Returns the text of all deltas. */
export function readText(events: readonly GenerationEvent[]): string {
  return events.map(({ event }) => (event.case === 'delta' ? event.value.text : '')).join('');
}

/** Returns the case of each event, in order. */
export function listCases(events: readonly GenerationEvent[]): (string | undefined)[] {
  return events.map(({ event }) => event.case);
}

/** Returns the reason and the matched stop sequence of each `finished` event. */
export function listFinishes(events: readonly GenerationEvent[]): [FinishReason, string | undefined][] {
  return events.flatMap(({ event }) =>
    event.case === 'finished'
      ? [[event.value.reason, event.value.matchedStop] satisfies [FinishReason, string | undefined]]
      : [],
  );
}
