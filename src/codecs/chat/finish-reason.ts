import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import { type Finished, FinishReason } from '../../gen/tollgate/v1/event_pb.ts';

/** Why a choice ended, in Chat's words and back. Source: wire.md B1, C3; cases FI-02, FI-03, FI-06, FI-18. */

/**
 * The reason for a client. Where the upstream's own word has no counterpart the content decides, because clients go by the reason to know
 * whether they have tools to call; a word of Chat's that is not known is told as it came.
 */
export function renderFinishReason({ reason, native, protocol }: Finished, hasCalls: boolean): string {
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
      if (hasCalls) return 'tool_calls';
      return protocol === Protocol.CHAT && native !== '' ? native : 'stop';
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
