/** What the internal listener accepts only from an edge in another process. */
import { Code, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { expect, test } from 'vitest';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { Protocol } from '../../src/gen/tollgate/v1/content_pb.ts';
import { type CountTokensRequest, GenerationService } from '../../src/gen/tollgate/v1/generation_pb.ts';
import type { GenerateRequest } from '../../src/gen/tollgate/v1/request_pb.ts';
import { ResponseService } from '../../src/gen/tollgate/v1/response_pb.ts';
import { publicRequestId } from '../../src/lib/ids.ts';
import { pump } from '../../src/lib/push.ts';
import type { PushedService } from '../../src/lib/pushed-service.ts';
import { fromConnectError } from '../../src/rpc/errors.ts';
import { InProcessTransport } from '../../src/rpc/in-process.ts';
import { start, transports } from './probe-listener.ts';

const source = { protocol: Protocol.CHAT, body: Buffer.from('{"model":"quick","x":1}') };

test('only with the edge token may a caller set id, fingerprint and raw bodies, and pass the gate', async () => {
  const id = publicRequestId(1_790_000_000_000 * 4096);
  const { baseUrl, probe } = await start({
    hasScope: token => token === 'right',
    gate: async context => {
      if (!context.requestHeader.has('authorization')) throw new GatewayError('invalid_api_key', 'nobody passes');
    },
  });
  const said = (headers: Record<string, string>) => ({
    'x-tollgate-request-id': id,
    'x-tollgate-fingerprint': 'f',
    ...headers,
  });
  const outcomes = [];
  for (const [name, transport] of Object.entries(transports(baseUrl))) {
    for (const token of ['right', 'wrong', null]) {
      const headers = said(token === null ? {} : { 'x-tollgate-edge': token });
      const client = createClient(GenerationService, transport);
      if (token !== 'right') {
        await expect(client.countTokens({}, { headers })).rejects.toMatchObject({ code: Code.Unauthenticated });
        Object.assign(headers, { authorization: 'Bearer key' });
      }
      probe.seen.length = 0;
      probe.requests.length = 0;
      let reported: string | null = null;
      const onHeader = (answered: Headers): void => void (reported = answered.get('x-request-id'));
      await client.countTokens({ request: { model: 'm', source } }, { headers, onHeader });
      await Array.fromAsync(client.generate({ model: 'quick', source }, { headers }));
      const isEdge = token === 'right';
      const names = ['x-tollgate-request-id', 'x-tollgate-fingerprint', 'x-tollgate-edge'];
      const [counted, generated] = probe.seen.map(({ requestHeader }) => names.map(each => requestHeader.get(each)));
      const ids = isEdge
        ? [id, id, id]
        : [reported, expect.stringMatching(/^req_\d+$/), expect.stringMatching(/^req_\d+$/)];
      expect([name, reported, counted, generated]).toEqual([
        name,
        ids[0],
        [ids[1], isEdge ? 'f' : null, isEdge ? 'right' : null],
        [ids[2], isEdge ? 'f' : null, isEdge ? 'right' : null],
      ]);
      const bodies = [
        (probe.requests[0] as CountTokensRequest).request?.source?.body,
        (probe.requests[1] as GenerateRequest).source?.body,
      ];
      outcomes.push(bodies.map(body => body !== undefined && Buffer.compare(body, source.body) === 0));
    }
  }
  expect(outcomes).toEqual(outcomes.map((_, each) => (each % 3 === 0 ? [true, true] : [false, false])));
  expect(outcomes).toHaveLength(15);
});

test('if an edge sends no request id or an invalid one, the gateway makes an id', async () => {
  const { baseUrl, probe } = await start({ hasScope: () => true });
  const client = createClient(GenerationService, createGrpcTransport({ baseUrl }));
  await client.countTokens({}, { headers: { 'x-tollgate-edge': 'x' } });
  await client.countTokens({}, { headers: { 'x-tollgate-edge': 'x', 'x-tollgate-request-id': 'req_forged' } });
  expect(probe.seen.map(({ requestHeader }) => requestHeader.get('x-tollgate-request-id'))).toEqual(['req_1', 'req_2']);
});

test('a message of an edge may be twice as large as the largest body, that of another caller only as large', async () => {
  const { baseUrl, probe } = await start({ messageBytesMax: 100_000, hasScope: token => token === 'right' });
  const client = createClient(GenerationService, createGrpcTransport({ baseUrl }));
  const request = { model: 'x'.repeat(99_000), source: { ...source, body: Buffer.alloc(99_000) } };
  const headers = { 'x-tollgate-edge': 'right' };
  await client.countTokens({ request }, { headers });
  expect(probe.requests).toHaveLength(1);
  const tooLarge = { request: { ...request, model: 'x'.repeat(1_200_000) } };
  for (const refused of [client.countTokens({ request }), client.countTokens(tooLarge, { headers })]) {
    const failure = await refused.catch((thrown: unknown) => thrown);
    expect(fromConnectError(failure).code).toBe('body_too_large');
  }
  expect(probe.requests).toHaveLength(1);
});

test('raw bodies of other callers are removed from requests, at any depth', async () => {
  const bodies: unknown[] = [];
  const implementation: Pick<
    PushedService<typeof ResponseService>,
    'createResponse' | 'countInputTokens' | 'compactConversation'
  > = {
    createResponse: ({ request }, _context, sink) => {
      bodies.push(request?.source?.body);
      return pump(async function* () {}, sink);
    },
    countInputTokens: ({ request }) => {
      bodies.push(request?.request?.source?.body);
      return {};
    },
    compactConversation: ({ request }) => {
      bodies.push(request?.source?.body);
      return {};
    },
  };
  const services = new InProcessTransport().service(
    ResponseService,
    implementation as PushedService<typeof ResponseService>,
  );
  const { baseUrl } = await start({ services, hasScope: token => token === 'right' });
  const client = createClient(ResponseService, createGrpcTransport({ baseUrl }));
  const request = { model: 'm', source };
  for (const headers of [{ 'x-tollgate-edge': 'right' }, { 'x-tollgate-edge': 'wrong' }, undefined]) {
    const options = headers === undefined ? {} : { headers };
    await Array.fromAsync(client.createResponse({ request }, options));
    await client.countInputTokens({ request: { request } }, options);
    await client.compactConversation({ request }, options);
  }
  const body = new Uint8Array(source.body);
  expect(bodies).toEqual([body, body, body, ...Array.from({ length: 6 })]);
});
