import { Code, createRouterTransport, type Transport } from '@connectrpc/connect';
import { describe, expect, test } from 'vitest';
import { GatewayError } from '../errors/gateway-error.ts';
import { CredentialKind, CredentialService } from '../gen/tollgate/v1/credential_pb.ts';
import { GenerationService } from '../gen/tollgate/v1/generation_pb.ts';
import { started } from '../generation/events.ts';
import { InProcessTransport } from './in-process.ts';
import { leanClient } from './lean-client.ts';

const generation = {
  async *generate({ model }: { model: string }) {
    for (const name of [`${model}1`, `${model}2`]) {
      yield { $typeName: 'tollgate.v1.GenerateResponse' as const, events: [started({ model: name })] };
    }
    if (model === 'bad') throw new GatewayError('model_not_found', 'no');
  },
  countTokens: () => ({ inputTokens: 3 }),
};
const credentials = {
  authenticate: (_: unknown, { requestHeader }: { requestHeader: Headers }) => ({
    kind: CredentialKind.API_KEY,
    scopes: [requestHeader.get('authorization') ?? ''],
  }),
};

const transports: readonly [string, Transport][] = [
  [
    'in process',
    new InProcessTransport().service(GenerationService, generation).service(CredentialService, credentials),
  ],
  [
    'serialised',
    createRouterTransport(router => {
      router.service(GenerationService, generation);
      router.service(CredentialService, credentials);
    }),
  ],
];

describe.each(transports)('leanClient, %s', (_, transport) => {
  test('unary calls carry headers there and messages back', async () => {
    const client = leanClient(CredentialService, transport);
    expect(await client.authenticate({}, { headers: { authorization: 'Bearer k' } })).toMatchObject({
      kind: CredentialKind.API_KEY,
      scopes: ['Bearer k'],
    });
    expect((await leanClient(GenerationService, transport).countTokens({})).inputTokens).toBe(3);
  });

  test('a stream gives its messages in order and then ends', async () => {
    const replies = await Array.fromAsync(leanClient(GenerationService, transport).generate({ model: 'm' }));
    const models = replies.flatMap(reply =>
      reply.events.map(({ event }) => event.case === 'started' && event.value.model),
    );
    expect(models).toEqual(['m1', 'm2']);
  });

  test('a failing stream gives what came before, then the error', async () => {
    const messages = leanClient(GenerationService, transport).generate({ model: 'bad' })[Symbol.asyncIterator]();
    expect((await messages.next()).done).toBe(false);
    expect((await messages.next()).done).toBe(false);
    await expect(messages.next()).rejects.toMatchObject({ name: 'ConnectError' });
  });
});

test('a call that can’t be opened fails where it is read, and nowhere else', async () => {
  const client = leanClient(GenerationService, new InProcessTransport());
  client.generate({});
  await expect(Array.fromAsync(client.generate({}))).rejects.toMatchObject({ code: Code.Unimplemented });
});
