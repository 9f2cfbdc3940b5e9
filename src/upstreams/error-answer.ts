import type { UpstreamCodec } from '../codecs/codec.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import type { Clock } from '../lib/clock.ts';
import { defined } from '../lib/defined.ts';
import { type CleanMessage, cleanParam } from './message-cleaner.ts';

/** The beginning of an answer. */
export interface ResponseHead {
  readonly status: number;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

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

/** Maps an answer with an error status to a failure, whose texts are the upstream's own. */
export function statusFailure(
  { status, headers }: ResponseHead,
  body: string,
  { codec, clock }: { readonly codec: Pick<UpstreamCodec, 'parseError'>; readonly clock: Clock },
): UpstreamFailure {
  const said = codec.parseError(status, body);
  const wait = retryAfterMs(headers, clock);
  return new UpstreamFailure('status', { status, ...said, ...defined({ retryAfterMs: wait }) });
}

/** Returns the same failure with its texts fit for a client. */
export function cleanFailure({ kind, facts }: UpstreamFailure, clean: CleanMessage): UpstreamFailure {
  const { message: said, param: named, detailCode = '', ...rest } = facts;
  const message = said === undefined ? undefined : clean(said);
  const param = named === undefined ? undefined : cleanParam(named);
  // A code that has to be cleaned is none.
  const code = detailCode !== '' && clean(detailCode) === detailCode ? detailCode : undefined;
  return new UpstreamFailure(kind, { ...rest, ...defined({ message, param, detailCode: code }) });
}
