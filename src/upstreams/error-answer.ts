import type { UpstreamCodec } from '../codecs/codec.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import type { Clock } from '../lib/clock.ts';
import { defined } from '../lib/defined.ts';
import { type CleanMessage, cleanParam } from './message-cleaner.ts';

/** The head of an HTTP response. */
export interface ResponseHead {
  readonly status: number;
  /** The names are in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** The longest wait; a longer `retry-after` counts as this. */
const retryAfterMaxMs = 86_400_000;

const first = (value: string | string[] | undefined): string | undefined => (Array.isArray(value) ? value[0] : value);

/**
 * Returns the wait that an upstream requests, in ms, from `retry-after-ms` or `retry-after` (seconds or an HTTP date); undefined if there is no valid value. Source: RFC 9110 10.2.3, docs/errors.md "Errors of providers".
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

/** The headers in which providers send their request ids, in order of preference. */
const requestIdHeaders = ['x-request-id', 'request-id', 'apim-request-id', 'x-amzn-requestid'] as const;

/** Returns the provider's id of the request, which its support asks for; undefined if there is none. */
export function readRequestId(headers: ResponseHead['headers']): string | undefined {
  for (const name of requestIdHeaders) {
    const value = first(headers[name]);
    if (value !== undefined && /^[\w.:+/=-]{1,200}$/.test(value)) return value;
  }
  return undefined;
}

/** Converts an answer with an error status to a failure, with the upstream's texts. */
export function statusFailure(
  { status, headers }: ResponseHead,
  body: string,
  { codec, clock }: { readonly codec: Pick<UpstreamCodec, 'parseError'>; readonly clock: Clock },
): UpstreamFailure {
  const said = codec.parseError(status, body);
  const wait = retryAfterMs(headers, clock);
  return new UpstreamFailure('status', { status, ...said, ...defined({ retryAfterMs: wait }) });
}

/** Returns the same failure with its texts cleaned for clients. */
export function cleanFailure({ kind, facts }: UpstreamFailure, clean: CleanMessage): UpstreamFailure {
  const { message: said, param: named, detailCode = '', ...rest } = facts;
  const message = said === undefined ? undefined : clean(said);
  const param = named === undefined ? undefined : cleanParam(named);
  // A text that cleaning changes is not a code.
  const code = detailCode !== '' && clean(detailCode) === detailCode ? detailCode : undefined;
  return new UpstreamFailure(kind, { ...rest, ...defined({ message, param, detailCode: code }) });
}
