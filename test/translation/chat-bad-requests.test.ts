import { expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { checkRequest } from '../../src/generation/check/check-request.ts';
import { type PortableRequest, toPortable } from '../../src/generation/portable/portable-request.ts';
import { unknownFields } from '../../src/generation/portable/unknown-fields.ts';
import { chatBadRequests, chatUnknownHints } from './chat-bad-requests.ts';

/**
 * The rows that the decoder, the check of requests or the translation refuses. Errors of JSON, models and upstreams are tested
 * elsewhere.
 */
const ours = chatBadRequests.filter(
  ({ code, name }) =>
    code === 'validation_error' ||
    code === 'unsupported_parameter' ||
    (code === 'unsupported_feature' && !/model (?:lacks|without)/.test(name)),
);

/** Decodes, checks and translates a body. Returns the request for an upstream of any protocol. */
function translated(value: unknown): PortableRequest {
  const raw = Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
  const body: unknown = JSON.parse(raw.toString());
  const { request } = chatCodec.decodeRequest({ body, raw, headers: {} });
  checkRequest(request);
  return toPortable(request);
}

function catchRefusal(value: unknown): GatewayError {
  try {
    translated(value);
  } catch (thrown) {
    if (thrown instanceof GatewayError) return thrown;
    throw thrown;
  }
  throw new Error('it was accepted');
}

test.each(ours)('$name: $code, and the error names $param', ({ body, code, param, status }) => {
  const error = catchRefusal(body);
  expect({ code: error.code, param: error.facts.param ?? null, status: error.facets.http }).toEqual({
    code,
    param,
    status,
  });
  if (code === 'validation_error') {
    expect(error.facts.violations?.[0]?.path.join('.') ?? '').toBe(param ?? '');
    expect(error.message).toMatch(/must|is required|needs|differs|names|asks|there are two|deprecated/);
  }
  if (code === 'unsupported_feature') expect(error.message).toMatch(/^Invalid value: .+\. Supported values are: /);
});

test.each(chatUnknownHints)('$name is left out, and its name is in `dropped`', ({ body, field }) => {
  const { request, dropped } = translated(body);
  expect([...dropped, ...unknownFields(request.source)]).toEqual([field]);
});

test.each([
  {
    name: 'audio in a format that the interface does not define',
    body: {
      model: 'sim/small',
      messages: [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'midi' } }] }],
    },
  },
  {
    name: 'json_schema without a name',
    body: {
      model: 'sim/small',
      messages: [{ role: 'user', content: 'Hi' }],
      response_format: { type: 'json_schema', json_schema: { schema: {} } },
    },
  },
])('$name is accepted and passed on', ({ body }) => {
  expect(translated(body).dropped).toEqual([]);
});
