import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import { type Finished, FinishReason } from '../../gen/tollgate/v1/event_pb.ts';
import { parseExact } from '../../lib/exact-json.ts';
import type { DecodedRequest, Json, JsonObject } from '../codec.ts';
import { objectIn } from '../json.ts';

/**
 * Converts stop reasons to and from those of Messages. Source: docs/interfaces/messages.md "Stop reasons", "Stream";
 * docs/interfaces/README.md "Translation"; translation cases FI-05, FI-08, FI-09, FI-18.
 */

/** Facts about the content, used if the upstream's reason has no counterpart in Messages. */
export interface AnswerFacts {
  /** True if the answer calls tools of the client. */
  readonly hasCalls: boolean;
  /** True if the answer contains a refusal part. */
  readonly hasRefusal: boolean;
}

/**
 * Two stop reasons have another name for clients that send no `anthropic-version`. Source: docs/interfaces/messages.md "Stop
 * reasons".
 */
const anthropicNames = { refusal: 'refusal', context: 'model_context_window_exceeded' } as const;
const namesWithoutVersion = { refusal: 'content_filter', context: 'max_tokens' } as const;

/** Returns `stop_reason` and its sibling members. `ownStopReasons`: true if the client understands all of Anthropic's stop reasons. */
export function renderStop(
  finished: Finished,
  { hasCalls, hasRefusal }: AnswerFacts,
  { ownStopReasons }: Pick<DecodedRequest, 'ownStopReasons'>,
): JsonObject {
  const names = ownStopReasons === true ? anthropicNames : namesWithoutVersion;
  const { reason, matchedStop, native, detailsJson, protocol } = finished;
  const stop = (stop_reason: string, stop_sequence: string | null = null): JsonObject => ({
    stop_reason,
    stop_sequence,
  });
  switch (reason) {
    case FinishReason.LENGTH:
      return stop('max_tokens');
    case FinishReason.CONTEXT_WINDOW:
      return stop(names.context);
    case FinishReason.TOOL_CALLS:
      return stop('tool_use');
    case FinishReason.CONTENT_FILTER:
    case FinishReason.REFUSAL:
      return { ...stop(names.refusal), stop_details: parseDetails(detailsJson) };
    default:
      if (hasCalls) return stop('tool_use');
      if (hasRefusal) return { ...stop(names.refusal), stop_details: parseDetails(detailsJson) };
      if (protocol === Protocol.MESSAGES && native !== '') return stop(native);
      if (matchedStop !== undefined) return stop('stop_sequence', matchedStop);
      return native === 'stop_sequence' ? stop('stop_sequence') : stop('end_turn');
  }
}

function parseDetails(json: string): Json {
  const details = json === '' ? undefined : objectIn(parseExact(json).value as Json);
  return { type: 'refusal', category: null, explanation: null, ...details };
}

const byNative: Readonly<Record<string, FinishReason>> = {
  end_turn: FinishReason.STOP,
  stop_sequence: FinishReason.STOP,
  max_tokens: FinishReason.LENGTH,
  tool_use: FinishReason.TOOL_CALLS,
  pause_turn: FinishReason.PAUSE,
  refusal: FinishReason.REFUSAL,
  content_filter: FinishReason.CONTENT_FILTER,
  model_context_window_exceeded: FinishReason.CONTEXT_WINDOW,
};

/** Parses an upstream's stop reason; OTHER for an unknown one. */
export function parseStopReason(native: string): FinishReason {
  return byNative[native] ?? FinishReason.OTHER;
}
