import type { UpstreamCodec } from '../codecs/codec.ts';
import { UpstreamFailure, type UpstreamFailureFacts } from '../generation/upstream.ts';
import type { Clock } from '../lib/clock.ts';
import type { ResponseHead } from './http-exchange.ts';
import { type CleanMessage, cleanParam } from './message-cleaner.ts';

/** A wait nobody means; a longer `retry-after` is taken as this. */
const retryAfterMaxMs = 86_400_000;

const first = (value: string | string[] | undefined): string | undefined => (Array.isArray(value) ? value[0] : value);

/**
 * How long an upstream asks to wait, in ms, from `retry-after-ms` or `retry-after` (seconds or an HTTP date); undefined where it does
 * not say so in a way that makes sense. Source: RFC 9110 10.2.3, wire.md B5.
 */
export function retryAfterMs(headers: ResponseHead['headers'], clock: Clock): number | undefined {
  const ms = Number(first(headers['retry-after-ms']) ?? Number.NaN);
  if (Number.isFinite(ms) && ms >= 0) return Math.min(Math.ceil(ms), retryAfterMaxMs);
  const text = first(headers['retry-after'])?.trim();
  if (text === undefined || text === '') return undefined;
  const seconds = Number(text);
  const wait = Number.isFinite(seconds) ? Math.ceil(seconds * 1_000) : Date.parse(text) - clock.now();
  if (Number.isNaN(wait) || (Number.isFinite(seconds) && seconds < 0)) return undefined;
  return Math.min(Math.max(wait, 0), retryAfterMaxMs);
}

/** The same failure with its message fit for a client. */
export function cleanFailure(failure: UpstreamFailure, clean: CleanMessage): UpstreamFailure {
  const { message, param, detailCode, ...rest } = failure.facts;
  return new UpstreamFailure(failure.kind, { ...rest, ...cleanTexts({ message, param, detailCode }, clean) });
}

/** What an answer with an error status is. */
export function statusFailure(
  head: ResponseHead,
  body: string,
  tools: { readonly codec: Pick<UpstreamCodec, 'parseError'>; readonly clean: CleanMessage; readonly clock: Clock },
): UpstreamFailure {
  const { message, param, detailCode, contextLengthExceeded, status, ...said } = tools.codec.parseError(
    head.status,
    body,
  );
  const wait = retryAfterMs(head.headers, tools.clock) ?? said.retryAfterMs;
  return new UpstreamFailure('status', {
    status: status ?? head.status,
    ...cleanTexts({ message, param, detailCode }, tools.clean),
    ...(contextLengthExceeded === true ? { contextLengthExceeded } : {}),
    ...(wait === undefined ? {} : { retryAfterMs: wait }),
  });
}

/** What an upstream says of a failure in texts. */
interface SaidTexts {
  readonly message?: string | undefined;
  readonly param?: string | undefined;
  readonly detailCode?: string | undefined;
}

function cleanTexts(texts: SaidTexts, clean: CleanMessage): Pick<UpstreamFailureFacts, keyof SaidTexts> {
  const message = texts.message === undefined ? undefined : clean(texts.message);
  const param = texts.param === undefined ? undefined : cleanParam(texts.param);
  const { detailCode = '' } = texts;
  return {
    ...(message === undefined ? {} : { message }),
    ...(param === undefined ? {} : { param }),
    // A code that has to be cleaned is none.
    ...(detailCode !== '' && clean(detailCode) === detailCode ? { detailCode } : {}),
  };
}
