/** An internal listener with a service that records its calls. */
import { setTimeout as sleep } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from '@connectrpc/connect-node';
import { onTestFinished } from 'vitest';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { type GenerateResponse, GenerationService } from '../../src/gen/tollgate/v1/generation_pb.ts';
import { GenerateRequestSchema } from '../../src/gen/tollgate/v1/request_pb.ts';
import { started } from '../../src/generation/events.ts';
import { pump } from '../../src/lib/push.ts';
import type { CallContext, PushedService } from '../../src/lib/pushed-service.ts';
import type { RpcCall } from '../../src/rpc/call-boundary.ts';
import { InProcessTransport } from '../../src/rpc/in-process.ts';
import { createRpcListener, type RpcListenerOptions } from '../../src/rpc/listener.ts';

/** A generation service that records what it gets from the listener. */
export class Probe {
  /** The stopped calls, in order: `cancelled` or the kind of call. */
  readonly stopped: string[] = [];
  readonly seen: CallContext[] = [];
  /** The received requests. */
  readonly requests: unknown[] = [];
  /** How many messages of a flood the listener has read. */
  flooded = 0;

  get service(): PushedService<typeof GenerationService> {
    return {
      generate: (request, context, sink) => {
        this.seen.push(context);
        this.requests.push(request);
        return pump(signal => this.#answer(request.model, context, signal), sink);
      },
      countTokens: (request, context) => {
        this.seen.push(context);
        this.requests.push(request);
        return { inputTokens: request.request?.items.length ?? 0 };
      },
    };
  }

  async *#answer(model: string, context: CallContext, signal: AbortSignal) {
    if (model === 'refused') throw new GatewayError('model_not_found', 'no such model: “refused”', { param: 'model' });
    if (model === 'broken') throw new TypeError('secret of the implementation');
    yield saying(context.requestHeader.get('x-tollgate-request-id') ?? '');
    if (model === 'quick') return;
    if (model === 'flood') {
      for (let sent = 0; sent < 10_000 && !signal.aborted; sent += 1) {
        this.flooded = sent;
        yield saying('x'.repeat(10_000));
      }
      this.stopped.push('flood');
      return;
    }
    await new Promise<void>(done => {
      if (signal.aborted) done();
      signal.addEventListener('abort', () => done(), { once: true });
    });
    this.stopped.push('cancelled');
    throw signal.reason;
  }
}

function saying(model: string): GenerateResponse {
  return { $typeName: 'tollgate.v1.GenerateResponse', events: [started({ model })] };
}

/** Starts a listener over a probe; it is closed when the test has ended. */
export async function start(options: Partial<RpcListenerOptions> = {}) {
  const probe = new Probe();
  const calls: RpcCall[] = [];
  let last = 0;
  const listener = createRpcListener({
    services: new InProcessTransport().service(GenerationService, probe.service),
    nextRequestId: () => `req_${(last += 1)}`,
    observe: call => calls.push(call),
    // Answers without reading the body.
    decodeSource: async source => ({ request: create(GenerateRequestSchema, { model: 'quick', source }) }),
    ...options,
  });
  const { port } = await listener.listen('127.0.0.1', 0);
  onTestFinished(() => listener.close(200));
  return { probe, calls, listener, port, baseUrl: `http://127.0.0.1:${port}` };
}

/** Returns transports of every protocol to the listener. */
export function transports(baseUrl: string) {
  return {
    'gRPC over HTTP/2': createGrpcTransport({ baseUrl }),
    'gRPC-Web over HTTP/2': createGrpcWebTransport({ baseUrl, httpVersion: '2' }),
    'gRPC-Web over HTTP/1.1': createGrpcWebTransport({ baseUrl, httpVersion: '1.1' }),
    'Connect over HTTP/2': createConnectTransport({ baseUrl, httpVersion: '2' }),
    'Connect over HTTP/1.1': createConnectTransport({ baseUrl, httpVersion: '1.1' }),
  };
}

/** Waits until a condition holds. */
export async function until(condition: () => boolean, withinMs = 15_000): Promise<void> {
  const end = performance.now() + withinMs;
  while (!condition()) {
    if (performance.now() > end) throw new Error('the condition did not hold in time');
    await sleep(5);
  }
}
