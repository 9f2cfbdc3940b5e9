import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import { type Finished, FinishReason } from '../../gen/tollgate/v1/event_pb.ts';

/**
 * Converts finish reasons to and from Chat's names. Source: docs/interfaces/chat-completions.md "Stream"; docs/interfaces/README.md
 * "Translation"; translation cases FI-02, FI-03, FI-06, FI-18.
 */

/**
 * Returns the finish reason for a client. If the upstream's reason has no counterpart, the content decides, because clients use the reason to
 * know whether to call tools. An unknown reason of a Chat upstream is passed through.
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

/** Parses an upstream's finish reason; OTHER for an unknown one. */
export function parseFinishReason(native: string): FinishReason {
  return byNative[native] ?? FinishReason.OTHER;
}
