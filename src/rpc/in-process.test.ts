import { setImmediate as turn } from 'node:timers/promises';
import { create, isMessage } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { describe, expect, test } from 'vitest';
import { GatewayError } from '../errors/gateway-error.ts';
import {
  AuthenticateRequestSchema,
  AuthenticateResponseSchema,
  CredentialKind,
  CredentialService,
} from '../gen/tollgate/v1/credential_pb.ts';
import { type GenerateResponse, GenerationService } from '../gen/tollgate/v1/generation_pb.ts';
import { GenerateRequestSchema } from '../gen/tollgate/v1/request_pb.ts';
import { started, usageReported } from '../generation/events.ts';
import { requestIdHeader } from '../lib/ids.ts';
import { pump, type StreamControl } from '../lib/push.ts';
import type { CallContext, PushedService } from '../lib/pushed-service.ts';
import { fromConnectError } from './errors.ts';
import { InProcessTransport } from './in-process.ts';
import { leanClient } from './lean-client.ts';

const events = [
  started({ model: 'm' }),
  usageReported({ $typeName: 'tollgate.v1.Usage', unpriced: [], inputTokens: 1 }),
];
const batch: GenerateResponse = { $typeName: 'tollgate.v1.GenerateResponse', events };
const noHeaders = new Headers();

type Generate = PushedService<typeof GenerationService>['generate'];

function generating(generate: Generate): InProcessTransport {
  return new InProcessTransport().service(GenerationService, { generate, countTokens: () => ({ inputTokens: 3 }) });
}

describe('InProcessTransport', () => {
  test('a stream is pushed during the call, with the same request, messages and control objects', () => {
    const control: StreamControl = { cancel: () => undefined, pause: () => undefined, resume: () => undefined };
    const request = create(GenerateRequestSchema, { model: 'x' });
    const headers = new Headers({ [requestIdHeader]: 'req_1' });
    const seen: unknown[] = [];
    let context: CallContext | undefined;
    const transport = generating((requested, called, sink) => {
      context = called;
      seen.push(requested, sink);
      return control;
    });
    const sink = { message: () => undefined, end: () => undefined };
    expect(transport.push(GenerationService.method.generate, request, headers, sink)).toBe(control);
    expect(seen[0]).toBe(request);
    expect(seen[1]).toBe(sink);
    expect(context).toEqual({
      requestHeader: headers,
      service: GenerationService,
      method: GenerationService.method.generate,
    });
  });

  test('a synchronous reply is returned synchronously, a plain object becomes a message, and headers reach the service', () => {
    const transport = new InProcessTransport().service(CredentialService, {
      authenticate: (_request, context) => ({
        kind: CredentialKind.API_KEY,
        scopes: [context.requestHeader.get('authorization') ?? ''],
      }),
    });
    const headers = new Headers({ authorization: 'Bearer k' });
    const request = create(AuthenticateRequestSchema);
    const reply = transport.ask(CredentialService.method.authenticate, request, headers);
    expect(isMessage(reply, AuthenticateResponseSchema)).toBe(true);
    expect(reply).toMatchObject({ kind: CredentialKind.API_KEY, scopes: ['Bearer k'] });
  });

  test('an error of the service arrives with its code and field, before and after the first message', async () => {
    const transport = generating((request, _context, sink) =>
      pump(async function* () {
        if (request.model === 'late') yield batch;
        throw new GatewayError('model_not_found', 'There is no such model.', { param: 'model' });
      }, sink),
    );
    for (const model of ['early', 'late']) {
      const replies: GenerateResponse[] = [];
      const failure = await (async () => {
        try {
          for await (const reply of leanClient(GenerationService, transport).generate({ model })) replies.push(reply);
        } catch (thrown) {
          return thrown;
        }
        return undefined;
      })();
      expect(replies).toEqual(model === 'late' ? [batch] : []);
      expect(fromConnectError(failure)).toMatchObject({ code: 'model_not_found', facts: { param: 'model' } });
    }
  });

  test('a caller that disconnects cancels the stream, and aborts the signal of a call with one reply', async () => {
    const reported: string[] = [];
    const transport = new InProcessTransport()
      .service(CredentialService, {
        authenticate: async (_request, { signal }) => {
          await new Promise<void>(resolve => {
            signal.addEventListener('abort', () => resolve());
          });
          reported.push('aborted');
          return {};
        },
      })
      .service(GenerationService, {
        generate: (_request, _context, sink) => ({
          cancel: () => {
            reported.push('cancelled');
            sink.end();
          },
          pause: () => undefined,
          resume: () => undefined,
        }),
        countTokens: () => ({ inputTokens: 3 }),
      });
    const caller = new AbortController();
    const requested = leanClient(CredentialService, transport).authenticate({}, { signal: caller.signal });
    const read = Array.fromAsync(leanClient(GenerationService, transport).generate({}, { signal: caller.signal }));
    caller.abort(new Error('gone'));
    await requested;
    await expect(read).rejects.toThrow('gone');
    expect(reported.toSorted()).toEqual(['aborted', 'cancelled']);
  });

  test('a method that no service has ends with Unimplemented, after the call has returned', async () => {
    const transport = new InProcessTransport();
    const client = leanClient(CredentialService, transport);
    await expect(client.authenticate({})).rejects.toMatchObject({ code: Code.Unimplemented });
    const ends: unknown[] = [];
    const sink = { message: () => undefined, end: (error?: Error) => ends.push(error) };
    const request = create(GenerateRequestSchema);
    transport.push(GenerationService.method.generate, request, noHeaders, sink).cancel();
    expect(ends).toEqual([]);
    await turn();
    expect(ends).toMatchObject([{ code: Code.Unimplemented }]);
    expect(ends[0]).toBeInstanceOf(ConnectError);
  });
});
