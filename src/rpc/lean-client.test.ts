import { Code } from '@connectrpc/connect';
import { isMessage } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { GatewayError } from '../errors/gateway-error.ts';
import { CredentialKind, CredentialService } from '../gen/tollgate/v1/credential_pb.ts';
import { GenerationService } from '../gen/tollgate/v1/generation_pb.ts';
import { GenerateRequestSchema } from '../gen/tollgate/v1/request_pb.ts';
import { started } from '../generation/events.ts';
import { pump } from '../lib/push.ts';
import { InProcessTransport } from './in-process.ts';
import { leanClient } from './lean-client.ts';

const received: unknown[] = [];
const transport = new InProcessTransport()
  .service(GenerationService, {
    generate: (request, _context, sink) =>
      pump(async function* () {
        received.push(request);
        for (const name of [`${request.model}1`, `${request.model}2`]) {
          yield { $typeName: 'tollgate.v1.GenerateResponse' as const, events: [started({ model: name })] };
        }
        if (request.model === 'bad') throw new GatewayError('model_not_found', 'no');
      }, sink),
    countTokens: () => ({ inputTokens: 3 }),
  })
  .service(CredentialService, {
    authenticate: (_, { requestHeader }) => ({
      kind: CredentialKind.API_KEY,
      scopes: [requestHeader.get('authorization') ?? ''],
    }),
  });
const generation = leanClient(GenerationService, transport);

test('unary calls send headers and return messages', async () => {
  const headers = new Headers({ authorization: 'Bearer k' });
  expect(await leanClient(CredentialService, transport).authenticate({}, { headers })).toMatchObject({
    kind: CredentialKind.API_KEY,
    scopes: ['Bearer k'],
  });
  expect((await generation.countTokens({})).inputTokens).toBe(3);
});

test('a stream yields its messages in order and then ends; the request arrives as a message', async () => {
  received.length = 0;
  const replies = await Array.fromAsync(generation.generate({ model: 'm' }));
  const models = replies.flatMap(reply =>
    reply.events.map(({ event }) => event.case === 'started' && event.value.model),
  );
  expect(models).toEqual(['m1', 'm2']);
  expect(received.map(each => isMessage(each, GenerateRequestSchema))).toEqual([true]);
});

test('a failing stream returns the messages before the failure, then the error', async () => {
  const messages = generation.generate({ model: 'bad' });
  expect((await messages.next()).done).toBe(false);
  expect((await messages.next()).done).toBe(false);
  await expect(messages.next()).rejects.toMatchObject({ code: 'model_not_found' });
});

test('a stream that is not read is never requested; one that can’t be opened fails when it is read', async () => {
  received.length = 0;
  generation.generate({ model: 'm' });
  expect(received).toEqual([]);
  const client = leanClient(GenerationService, new InProcessTransport());
  await expect(Array.fromAsync(client.generate({}))).rejects.toMatchObject({ code: Code.Unimplemented });
});
