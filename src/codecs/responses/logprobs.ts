import type { TokenLogprob } from '../../gen/tollgate/v1/content_pb.ts';
import type { JsonObject } from '../codec.ts';
import { renderTokens as render } from '../logprobs.ts';

/** Renders tokens as the list `logprobs`; `bytes` is always a list, never null. */
export function renderTokens(logprobs: readonly TokenLogprob[]): JsonObject[] {
  return render(logprobs, ({ token, logprob, utf8 }) => ({ token: token.toWellFormed(), logprob, bytes: [...utf8] }));
}
