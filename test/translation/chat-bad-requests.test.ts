import { expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { checkRequest } from '../../src/generation/check/check-request.ts';
import { chatBadRequests } from './chat-bad-requests.ts';

/** What the decoder and the check of requests refuse; JSON, models and upstreams are others' part. */
const ours = chatBadRequests.filter(({ code }) => code === 'validation_error' || code === 'unsupported_parameter');

function refusalOf(value: unknown): GatewayError {
  const raw = Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
  const body: unknown = JSON.parse(raw.toString());
  try {
    checkRequest(chatCodec.decodeRequest({ body, raw, headers: {} }).request);
  } catch (thrown) {
    if (thrown instanceof GatewayError) return thrown;
    throw thrown;
  }
  throw new Error('it was accepted');
}

test.each(ours)('$name: $code naming $param', ({ body, code, param, status }) => {
  const error = refusalOf(body);
  expect({ code: error.code, param: error.facts.param ?? null, status: error.facets.http }).toEqual({
    code,
    param,
    status,
  });
  if (code === 'validation_error') {
    expect(error.facts.violations?.[0]?.path.join('.') ?? '').toBe(param ?? '');
    expect(error.message).toMatch(/must|is required|needs|differs|names|asks|there are two|deprecated/);
  }
});
