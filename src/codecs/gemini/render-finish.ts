import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import { type Finished, FinishReason } from '../../gen/tollgate/v1/event_pb.ts';

/** Renders finish reasons in Google's words; calls end with STOP. Source: docs/interfaces/gemini.md "Answer". */

const words: Readonly<Partial<Record<FinishReason, string>>> = {
  [FinishReason.STOP]: 'STOP',
  [FinishReason.TOOL_CALLS]: 'STOP',
  [FinishReason.LENGTH]: 'MAX_TOKENS',
  [FinishReason.CONTEXT_WINDOW]: 'MAX_TOKENS',
  [FinishReason.CONTENT_FILTER]: 'SAFETY',
  [FinishReason.REFUSAL]: 'SAFETY',
};

/** Returns a Gemini provider's own reason, known or not; else the word for the reason. `hasRefusal`: the answer contains a refusal. */
export function renderFinishReason({ reason, native, protocol }: Finished, hasRefusal: boolean): string {
  if (protocol === Protocol.GEMINI && native !== '') return native;
  const word = words[reason] ?? 'OTHER';
  return word === 'STOP' && hasRefusal ? 'SAFETY' : word;
}
