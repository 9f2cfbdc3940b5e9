import { FinishReason } from '../../gen/tollgate/v1/event_pb.ts';

/** Why a choice ended, in Chat's words and back. Source: wire.md B1, C3; cases FI-02, FI-03, FI-06, FI-18. */

/** What a client of Chat Completions is told. */
export type ChatFinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter' | 'function_call';

/**
 * The reason for a client. Where the upstream's own word has no counterpart the content decides, because clients go by the reason to know
 * whether they have tools to call.
 */
export function renderFinishReason(reason: FinishReason, hasCalls: boolean): ChatFinishReason {
  switch (reason) {
    case FinishReason.STOP:
      return 'stop';
    case FinishReason.LENGTH:
    case FinishReason.CONTEXT_WINDOW:
      return 'length';
    case FinishReason.TOOL_CALLS:
      return 'tool_calls';
    case FinishReason.CONTENT_FILTER:
    case FinishReason.REFUSAL:
      return 'content_filter';
    default:
      return hasCalls ? 'tool_calls' : 'stop';
  }
}

const byNative: Readonly<Record<string, FinishReason>> = {
  stop: FinishReason.STOP,
  length: FinishReason.LENGTH,
  tool_calls: FinishReason.TOOL_CALLS,
  function_call: FinishReason.TOOL_CALLS,
  content_filter: FinishReason.CONTENT_FILTER,
};

/** The reason that an upstream gave; OTHER for a word of its own. */
export function parseFinishReason(native: string): FinishReason {
  return byNative[native] ?? FinishReason.OTHER;
}
