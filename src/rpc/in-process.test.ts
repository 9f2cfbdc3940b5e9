import { Code, ConnectError, createClient, type ServiceImpl } from '@connectrpc/connect';
import { describe, expect, test } from 'vitest';
import { GatewayError } from '../errors/gateway-error.ts';
import { AuthenticateResponseSchema, CredentialKind, CredentialService } from '../gen/tollgate/v1/credential_pb.ts';
import { type GenerateResponse, GenerationService } from '../gen/tollgate/v1/generation_pb.ts';
import { GenerateRequestSchema } from '../gen/tollgate/v1/request_pb.ts';
import { started, usageReported } from '../generation/events.ts';
import { isMessage } from '@bufbuild/protobuf';
import { requestIdHeader } from '../lib/ids.ts';
import { fromConnectError } from './errors.ts';
import { InProcessTransport } from './in-process.ts';

const events = [started({ model: 'm' }), usageReported({ $typeName: 'tollgate.v1.Usage', inputTokens: 1 })];
const batch: GenerateResponse = { $typeName: 'tollgate.v1.GenerateResponse', events };

function generationClient(service: Partial<ServiceImpl<typeof GenerationService>>) {
  const transport = new InProcessTransport();
  return createClient(
    GenerationService,
    transport.service(GenerationService, service as ServiceImpl<typeof GenerationService>),
  );
}

async function gathered(stream: AsyncIterable<GenerateResponse>): Promise<GenerateResponse[]> {
  return Array.fromAsync(stream);
}

describe('InProcessTransport', () => {
  test('messages arrive as the very objects that were sent, inits become messages', async () => {
    let received: unknown;
    const client = generationClient({
      async *generate(request) {
        received = request;
        yield batch;
      },
    });
    const [reply] = await gathered(client.generate({ model: 'x' }));
    expect(reply).toBe(batch);
    expect(isMessage(received, GenerateRequestSchema)).toBe(true);
    expect(received).toMatchObject({ model: 'x', items: [] });
  });

  test('a unary reply given as an init becomes a message, and headers reach the service', async () => {
    const transport = new InProcessTransport().service(CredentialService, {
      authenticate: (_request, context) => ({
        kind: CredentialKind.API_KEY,
        scopes: [context.requestHeader.get('authorization') ?? ''],
      }),
    });
    const reply = await createClient(CredentialService, transport).authenticate(
      {},
      { headers: { authorization: 'Bearer k' } },
    );
    expect(isMessage(reply, AuthenticateResponseSchema)).toBe(true);
    expect(reply).toMatchObject({ kind: CredentialKind.API_KEY, scopes: ['Bearer k'] });
  });

  test('an error of the service arrives with its code, field and request id, before and after the first message', async () => {
    const client = generationClient({
      async *generate(request) {
        if (request.model === 'late') yield batch;
        throw new GatewayError('model_not_found', 'There is no such model.', { param: 'model' });
      },
    });
    for (const model of ['early', 'late']) {
      const replies: GenerateResponse[] = [];
      const failure = await (async () => {
        try {
          for await (const reply of client.generate({ model }, { headers: { [requestIdHeader]: 'req_1' } }))
            replies.push(reply);
        } catch (thrown) {
          return thrown;
        }
        return undefined;
      })();
      expect(replies.length).toBe(model === 'late' ? 1 : 0);
      expect(failure).toBeInstanceOf(ConnectError);
      expect(failure).toMatchObject({ code: Code.InvalidArgument });
      expect(fromConnectError(failure)).toMatchObject({ code: 'model_not_found', facts: { param: 'model' } });
    }
  });

  test('the caller’s signal and deadline reach the service', async () => {
    const reasons: unknown[] = [];
    const client = generationClient({
      async *generate(_request, { signal, timeoutMs }) {
        reasons.push(timeoutMs() !== undefined);
        await new Promise<void>(resolve => {
          if (signal.aborted) resolve();
          signal.addEventListener('abort', () => resolve());
        });
        reasons.push(signal.aborted);
        yield batch;
      },
    });
    await gathered(client.generate({}, { timeoutMs: 20 }));
    const caller = new AbortController();
    setTimeout(() => caller.abort(), 20);
    await gathered(client.generate({}, { signal: caller.signal }));
    expect(reasons).toEqual([true, true, false, true]);
  });

  test('a method that nobody offers is Unimplemented', async () => {
    const client = createClient(CredentialService, new InProcessTransport());
    await expect(client.authenticate({})).rejects.toMatchObject({ code: Code.Unimplemented });
  });
});
