/** Generation over the internal listener of a gateway, by every kind of caller: requests are admitted, counted, cut and charged like REST requests. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { create } from '@bufbuild/protobuf';
import { Code, ConnectError, createClient, type Transport } from '@connectrpc/connect';
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from '@connectrpc/connect-node';
import { credentials, loadPackageDefinition, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { ItemSchema, Role } from '../../src/gen/tollgate/v1/content_pb.ts';
import { type ErrorDetail, ErrorDetailSchema } from '../../src/gen/tollgate/v1/error_pb.ts';
import { GenerationService } from '../../src/gen/tollgate/v1/generation_pb.ts';
import { Delivery } from '../../src/gen/tollgate/v1/request_pb.ts';
import { endGateway, type Gateway, heldBy, makeKey, readRecord, startGateway } from '../gateway.ts';

const root = resolve(import.meta.dirname, '../..');
let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => endGateway(gateway));

function userSays(text: string) {
  return create(ItemSchema, {
    content: {
      case: 'message',
      value: { role: Role.USER, parts: [{ content: { case: 'text', value: { text } } }] },
    },
  });
}

const ask = (text: string) => ({ model: 'sim/large', items: [userSays(text)] });
/** A request whose answer is slow and takes more than a minute, so that it does not end by itself during a test. */
const slowly = ask('!sim tokens=400 tps=4');

function transports(credential: string | null): Record<string, Transport> {
  const options = {
    baseUrl: gateway.rpcUrl,
    interceptors: [
      (next => request => {
        if (credential !== null) request.header.set('authorization', `Bearer ${credential}`);
        return next(request);
      }) satisfies NonNullable<Parameters<typeof createGrpcTransport>[0]['interceptors']>[number],
    ],
  };
  return {
    'gRPC over HTTP/2': createGrpcTransport(options),
    'gRPC-Web over HTTP/1.1': createGrpcWebTransport({ ...options, httpVersion: '1.1' }),
    'Connect over HTTP/2': createConnectTransport({ ...options, httpVersion: '2' }),
    'Connect over HTTP/1.1': createConnectTransport({ ...options, httpVersion: '1.1' }),
  };
}

function makeClient(credential: string | null = gateway.apiKey) {
  return createClient(GenerationService, transports(credential)['gRPC over HTTP/2'] ?? expect.fail());
}

async function readDetail(messages: AsyncIterable<unknown>): Promise<ErrorDetail> {
  try {
    for await (const message of messages) void message;
  } catch (error) {
    return ConnectError.from(error).findDetails(ErrorDetailSchema)[0] ?? expect.fail(String(error));
  }
  return expect.fail('the call succeeded');
}

test('every protocol generates, and the request is in the activity at its cost', async () => {
  for (const [name, transport] of Object.entries(transports(gateway.apiKey))) {
    let requestId = '';
    const client = createClient(GenerationService, transport);
    const replies = client.generate(ask('!sim say=It works.'), {
      onHeader: headers => (requestId = headers.get('x-request-id') ?? ''),
    });
    const events = (await Array.fromAsync(replies)).flatMap(reply => reply.events);
    const last = events.at(-1)?.event;
    if (last?.case !== 'completed') expect.fail(`${name} ended with ${last?.case ?? 'nothing'}`);
    const record = await readRecord(gateway, requestId);
    expect([name, record.state, record.costNanoUsd]).toEqual([name, RecordState.COMPLETED, last.value.costNanoUsd]);
    expect(record.costNanoUsd).toBeGreaterThan(0n);
  }
});

test('tokens are counted without a charge', async () => {
  const before = (await gateway.account.listActivity({})).records.length;
  const { inputTokens } = await makeClient().countTokens({ request: ask('How many tokens are these?') });
  expect(inputTokens).toBeGreaterThan(3);
  expect((await gateway.account.listActivity({})).records).toHaveLength(before);
});

test('a deadline and a cancelled call stop the answer, charge what was delivered and leave nothing held', async () => {
  for (const [name, transport] of Object.entries(transports(gateway.apiKey))) {
    for (const how of ['deadline', 'cancel'] as const) {
      let requestId = '';
      const controller = new AbortController();
      const replies = createClient(GenerationService, transport).generate(slowly, {
        onHeader: headers => (requestId = headers.get('x-request-id') ?? ''),
        ...(how === 'deadline' ? { timeoutMs: 600 } : { signal: controller.signal }),
      });
      const failure = await (async () => {
        try {
          for await (const { events } of replies) {
            if (how === 'cancel' && events.some(({ event }) => event.case === 'delta')) controller.abort();
          }
        } catch (error) {
          return ConnectError.from(error).code;
        }
        return expect.fail(`${name} went on to its end`);
      })();
      expect([name, how, failure]).toEqual([name, how, how === 'deadline' ? Code.DeadlineExceeded : Code.Canceled]);
      const record = await readRecord(gateway, requestId);
      expect([name, how, record.state]).toEqual([name, how, RecordState.CLIENT_ABORTED]);
      expect(record.usage?.outputTokens).toBeLessThan(20);
      expect(record.latencyMs).toBeLessThan(2_000n);
    }
  }
  await expect.poll(() => heldBy(gateway)).toBe(0n);
});

interface GrpcClient {
  Generate(
    request: object,
    metadata: Metadata,
    options?: object,
  ): AsyncIterable<{ events: { event: string }[] }> & { cancel(): void };
  close(): void;
}

function grpcClient(): GrpcClient {
  const definition = loadSync('tollgate/v1/generation.proto', {
    includeDirs: [resolve(root, 'proto')],
    keepCase: true,
    oneofs: true,
    enums: String,
  });
  const loaded = loadPackageDefinition(definition) as never as {
    tollgate: { v1: { GenerationService: new (address: string, channel: unknown) => GrpcClient } };
  };
  return new loaded.tollgate.v1.GenerationService(new URL(gateway.rpcUrl).host, credentials.createInsecure());
}

test('a plain grpc-js client generates, gets DEADLINE_EXCEEDED, and can cancel', async () => {
  const client = grpcClient();
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${gateway.apiKey}`);
  const request = (text: string) => ({
    model: 'sim/large',
    items: [{ message: { role: 'ROLE_USER', parts: [{ text: { text } }] } }],
  });
  try {
    const replies = await Array.fromAsync(client.Generate(request('!sim say=It works.'), metadata));
    expect(replies.flatMap(({ events }) => events.map(({ event }) => event)).at(-1)).toBe('completed');
    const late = client.Generate(request('!sim tokens=400 tps=4'), metadata, { deadline: Date.now() + 500 });
    expect(await readErrorCode(late)).toBe(status.DEADLINE_EXCEEDED);
    const cancelled = client.Generate(request('!sim tokens=400 tps=4'), metadata);
    setTimeout(() => cancelled.cancel(), 300);
    expect(await readErrorCode(cancelled)).toBe(status.CANCELLED);
    expect(await readErrorCode(client.Generate(request('hi'), new Metadata()))).toBe(status.UNAUTHENTICATED);
  } finally {
    client.close();
  }
  await expect.poll(() => heldBy(gateway)).toBe(0n);
});

async function readErrorCode(replies: AsyncIterable<unknown>): Promise<number> {
  try {
    for await (const reply of replies) void reply;
  } catch (error) {
    return (error as ServiceError).code;
  }
  return status.OK;
}

test('buf curl and Connect JSON, as curl sends it, generate', async () => {
  const body = {
    model: 'sim/large',
    delivery: 'DELIVERY_WHOLE',
    items: [{ message: { role: 'ROLE_USER', parts: [{ text: { text: '!sim say=It works.' } }] } }],
  };
  const { stdout } = await promisify(execFile)(resolve(root, 'node_modules/.bin/buf'), [
    'curl',
    '--http2-prior-knowledge',
    '--protocol=grpc',
    `--header=authorization: Bearer ${gateway.apiKey}`,
    `--data=${JSON.stringify(body)}`,
    `${gateway.rpcUrl}/tollgate.v1.GenerationService/Generate`,
  ]);
  expect(stdout).toContain('"completed"');
  const counted = await fetch(`${gateway.rpcUrl}/tollgate.v1.GenerationService/CountTokens`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': gateway.apiKey },
    body: JSON.stringify({ request: body }),
  });
  expect([counted.status, Object.keys((await counted.json()) as object)]).toEqual([200, ['inputTokens', 'source']]);
});

test('generation needs an API key; refusals have code, field and request id', async () => {
  const token = readFileSync(`${gateway.dataDir}/operator.token`, 'utf8').trim();
  const wrong: [string | null, string][] = [
    [null, 'invalid_api_key'],
    [`sk-tg-${'0'.repeat(43)}`, 'invalid_api_key'],
    [token, 'invalid_api_key'],
    [gateway.managementKey, 'permission_denied'],
  ];
  for (const [credential, code] of wrong) {
    const detail = await readDetail(makeClient(credential).generate(ask('hi')));
    expect([credential, detail.code]).toEqual([credential, code]);
    const counted = await makeClient(credential)
      .countTokens({ request: ask('hi') })
      .catch((error: unknown) => ConnectError.from(error).findDetails(ErrorDetailSchema)[0]?.code);
    expect([credential, counted]).toEqual([credential, code]);
  }
  const unknown = await readDetail(makeClient().generate({ ...ask('hi'), model: 'sim/larg' }));
  expect([unknown.code, unknown.param, unknown.httpStatus]).toEqual(['model_not_found', 'model', 400]);
  expect(unknown.requestId).toMatch(/^req_[0-9A-Za-z]{21}$/);
  expect(unknown.tip).toContain('sim/large');
  const empty = await readDetail(makeClient().generate({ model: 'sim/large' }));
  expect([empty.code, empty.param]).toEqual(['validation_error', 'items']);
});

test('of 1,000 calls at once on a minute limit of 50, 50 are admitted', async () => {
  const { key } = await makeKey(gateway, { minuteLimit: 50n });
  const client = makeClient(key);
  const outcomes = await Promise.all(
    Array.from({ length: 1_000 }, async () => {
      try {
        for await (const reply of client.generate({ ...ask('!sim say=ok'), delivery: Delivery.WHOLE })) void reply;
        return 'passed';
      } catch (error) {
        return ConnectError.from(error).findDetails(ErrorDetailSchema)[0]?.code;
      }
    }),
  );
  expect(outcomes.filter(outcome => outcome === 'passed')).toHaveLength(50);
  expect(outcomes.filter(outcome => outcome === 'rate_limit')).toHaveLength(950);
});

test('no credential and no prompt is printed', async () => {
  await readDetail(makeClient(`sk-tg-${'canary'.repeat(7)}x`).generate(ask('canary in the prompt')));
  for await (const reply of makeClient().generate(ask('canary in the prompt'))) void reply;
  const printed = gateway.printed();
  expect(printed).toContain('tollgate.v1.GenerationService/Generate');
  for (const secret of [gateway.apiKey, gateway.managementKey, 'canary']) expect(printed).not.toContain(secret);
});
