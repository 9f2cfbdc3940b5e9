import { FinishReason } from '../../gen/tollgate/v1/event_pb.ts';

/**
 * Reads the finish reasons of the protocol. Source: docs/providers.md "The Gemini protocol"; docs/interfaces/README.md "Translation"; cases
 * FI-11, FI-12, FI-14.
 */

const byNative: Readonly<Record<string, FinishReason>> = {
  STOP: FinishReason.STOP,
  MAX_TOKENS: FinishReason.LENGTH,
  SAFETY: FinishReason.CONTENT_FILTER,
  RECITATION: FinishReason.CONTENT_FILTER,
  BLOCKLIST: FinishReason.CONTENT_FILTER,
  PROHIBITED_CONTENT: FinishReason.CONTENT_FILTER,
  SPII: FinishReason.CONTENT_FILTER,
  MODEL_ARMOR: FinishReason.CONTENT_FILTER,
  IMAGE_SAFETY: FinishReason.CONTENT_FILTER,
  IMAGE_PROHIBITED_CONTENT: FinishReason.CONTENT_FILTER,
  IMAGE_RECITATION: FinishReason.CONTENT_FILTER,
};

/** Finish reasons that are failures of the model: the content before them is not an answer. */
const failures = new Set([
  'MALFORMED_FUNCTION_CALL',
  'UNEXPECTED_TOOL_CALL',
  'TOO_MANY_TOOL_CALLS',
  'MALFORMED_RESPONSE',
]);

/** Parses an upstream's finish reason: STOP after tool calls becomes TOOL_CALLS; a reason without an equivalent becomes OTHER. */
export function parseFinishReason(native: string, hasCalls: boolean): FinishReason {
  const reason = byNative[native] ?? FinishReason.OTHER;
  return reason === FinishReason.STOP && hasCalls ? FinishReason.TOOL_CALLS : reason;
}

/** Returns whether a reason means that the answer failed. Gemini's OTHER is a failure only if `isEmpty`: no content came before it. */
export function isFailure(native: string, isEmpty: boolean): boolean {
  return failures.has(native) || (native === 'OTHER' && isEmpty);
}
