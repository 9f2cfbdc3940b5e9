import { MessageChannel } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { GenerationService } from '../gen/tollgate/v1/generation_pb.ts';
import { type HeaderReader, pump } from '../lib/push.ts';
import { CallPort } from '../lib/threads/call-port.ts';
import { InProcessTransport } from './in-process.ts';
import { leanClient } from './lean-client.ts';
import { readError, writeError } from './port-errors.ts';
import { PortCalls, PortTransport } from './port-transport.ts';

/** Headers of a call whose caller knows when the answer was sent: when the test calls `sent`. */
class Caller implements HeaderReader {
  sent = (): void => undefined;

  get(): null {
    return null;
  }

  has(): boolean {
    return false;
  }

  onOver(done: () => void): boolean {
    this.sent = done;
    return true;
  }
}

/** Connects a client, over a port, to a service that needs to know when its calls are over: `over` has those that are. */
function connect() {
  const over: string[] = [];
  const services = new InProcessTransport().service(GenerationService, {
    generate: ({ model }, { requestHeader }, sink) =>
      pump(async function* () {
        requestHeader.onOver?.(() => over.push(model));
        yield { $typeName: 'tollgate.v1.GenerateResponse' as const, events: [] };
      }, sink),
    countTokens: ({ request }, { requestHeader }) => {
      requestHeader.onOver?.(() => over.push(request?.model ?? ''));
      return { inputTokens: 3 };
    },
  });
  const { port1, port2 } = new MessageChannel();
  const near = new CallPort(port1, {
    answer: (name, args) => void transport.take(name, args),
    readError,
    writeError,
  });
  const far = new CallPort(port2, { answer: (name, args) => calls.answer(name, args), readError, writeError });
  const transport = new PortTransport(near);
  const calls = new PortCalls(services, [GenerationService], (name, ...args) => far.notify(name, ...args));
  return { over, calls, client: leanClient(GenerationService, transport), close: () => port1.close() };
}

test('a service in another thread is told when its answer was sent', async () => {
  const { over, client, close } = connect();
  const [count, stream] = [new Caller(), new Caller()];
  expect(await client.countTokens({ request: { model: 'count' } }, { headers: count })).toMatchObject({
    inputTokens: 3,
  });
  expect(await Array.fromAsync(client.generate({ model: 'stream' }, { headers: stream }))).toHaveLength(1);
  // A later call has a reply: a message about the earlier ones would have arrived before it.
  await client.countTokens({}, { headers: new Caller() });
  expect(over).toEqual([]);
  stream.sent();
  await expect.poll(() => over).toEqual(['stream']);
  count.sent();
  await expect.poll(() => over).toEqual(['stream', 'count']);
  close();
});

test('if nobody knows when it was sent, the service is told after the reply', async () => {
  const { over, client, close } = connect();
  await client.countTokens({ request: { model: 'count' } }, { headers: new Headers() });
  await expect.poll(() => over).toEqual(['count']);
  await Array.fromAsync(client.generate({ model: 'stream' }, { headers: new Headers() }));
  await expect.poll(() => over).toEqual(['count', 'stream']);
  close();
});

test('if the calling thread ends, all its calls are over', async () => {
  const { over, client, calls, close } = connect();
  await client.countTokens({ request: { model: 'count' } }, { headers: new Caller() });
  await Array.fromAsync(client.generate({ model: 'stream' }, { headers: new Caller() }));
  calls.end();
  expect(over).toEqual(['count', 'stream']);
  close();
});
