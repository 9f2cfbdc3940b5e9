import { create } from '@bufbuild/protobuf';
import { afterEach, expect, test } from 'vitest';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { Hold } from '../../src/generation/hold.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { defaultRetryPolicy } from '../../src/core/routing/request-plan.ts';
import type { RouteConfig } from '../../src/core/routing/route-table.ts';
import { Router, type RouterOptions } from '../../src/core/routing/router.ts';
import { routedSteps } from '../../src/core/routing/routed-steps.fixtures.ts';
import { GenerateRequestSchema } from '../../src/gen/tollgate/v1/request_pb.ts';
import type { HttpUpstreamOptions } from '../../src/upstreams/http-upstream.ts';
import { makeCall, chatUpstream, golden, makeKeys, patient, readText } from './call-upstream.ts';
import { type Behaviour, chunk, lastChunk, RawUpstream, streamHead, whole } from './raw-upstream.ts';

const running: RawUpstream[] = [];
afterEach(async () => {
  for (const upstream of running.splice(0)) await upstream.stop();
});

async function upstreamThat(behaviour: Behaviour): Promise<RawUpstream> {
  const upstream = await RawUpstream.start(behaviour);
  running.push(upstream);
  return upstream;
}

const answers: Behaviour = socket => {
  socket.write(Buffer.concat([Buffer.from(streamHead), chunk(golden), Buffer.from(lastChunk)]));
};
const breaks: Behaviour = socket => {
  socket.end(streamHead + chunk(golden.subarray(0, 900)).toString());
};
const refuses =
  (status: number, headers: Record<string, string> = {}): Behaviour =>
  socket =>
    void socket.write(whole(status, '{"error":{"message":"no"}}', headers));

/** Returns a router with a route to each of these upstreams, in order of priority. Every wait is short. */
function routerOver(
  upstreams: readonly RawUpstream[],
  options: Partial<RouterOptions> & { client?: Partial<HttpUpstreamOptions> } = {},
): Router {
  const providers = upstreams.map(({ baseUrl }, index) => ({
    name: `p${index}`,
    upstream: chatUpstream(baseUrl, options.client),
  }));
  const routes = providers.map(
    ({ name }, index): RouteConfig => ({ provider: name, model: 'large-v1', priority: index, weight: 1 }),
  );
  return new Router({
    config: { providers, routes: new Map([['acme/large', routes]]) },
    clock: systemClock,
    retry: { ...defaultRetryPolicy, backoff: { baseMs: 10, maxMs: 20 } },
    ...options,
  });
}

async function outcome(router: Router, restartable = false): Promise<string> {
  const { request } = makeCall();
  const { signal } = new AbortController();
  const hold = Hold.of({ kind: 'admitted', id: 1 });
  let seen = '';
  let isOver = false;
  try {
    for await (const step of routedSteps(router, { hold, request, signal, restartable, maxOutputTokens: undefined })) {
      if (step.kind === 'begun') seen = `${step.route.provider}: `;
      else {
        seen += readText(step.events);
        isOver = step.events.at(-1)?.event.case === 'completed';
      }
    }
    return isOver ? seen : `${seen} without its end`;
  } catch (thrown) {
    if (!(thrown instanceof GatewayError)) throw thrown;
    return `${seen}${thrown.code}`;
  }
}

const text = 'Hello 😀{"city":"Paris"}{}';

test('if a route fails, it is tried twice more, and then the next route answers', async () => {
  const [bad, good] = [await upstreamThat(refuses(500)), await upstreamThat(answers)];
  expect(await outcome(routerOver([bad, good]))).toBe(`p1: ${text}`);
  expect([bad.requests.length, good.requests.length]).toEqual([3, 1]);
});

test('if the server of a route is down, the next route is tried', async () => {
  const [bad, good] = [await upstreamThat(answers), await upstreamThat(answers)];
  const router = routerOver([bad, good]);
  await bad.stop();
  running.shift();
  expect(await outcome(router)).toBe(`p1: ${text}`);
});

test('if the first event of a route does not come in time, the next route is tried at once', async () => {
  const [slow, good] = [await upstreamThat(() => undefined), await upstreamThat(answers)];
  const router = routerOver([slow, good], { client: { timeouts: { ...patient, firstEventMs: 150 } } });
  expect([await outcome(router), slow.requests.length]).toEqual([`p1: ${text}`, 1]);
});

test('a stream that breaks is not retried, an answer that is not streamed is', async () => {
  const [bad, good] = [await upstreamThat(breaks), await upstreamThat(answers)];
  expect(await outcome(routerOver([bad, good]))).toBe('p0: Hello 😀upstream_error');
  expect(good.requests.length).toBe(0);
  expect(await outcome(routerOver([bad, good]), true)).toBe(`p1: ${text}`);
  expect(await outcome(routerOver([bad]), true)).toBe('p0: Hello 😀upstream_error');
});

test('an upstream’s retry-after is waited for', async () => {
  let requests = 0;
  const busy = await upstreamThat((socket, request) => {
    requests += 1;
    return requests === 1 ? refuses(429, { 'retry-after': '1' })(socket, request) : answers(socket, request);
  });
  const started = performance.now();
  expect(await outcome(routerOver([busy]))).toBe(`p0: ${text}`);
  expect(performance.now() - started).toBeGreaterThanOrEqual(1_000);
});

test('a refused key is not used again by other attempts of the request, nor by other requests for a while', async () => {
  const upstream = await upstreamThat((socket, request) =>
    request.headers['authorization'] === 'Bearer bad' ? refuses(401)(socket, request) : refuses(500)(socket, request),
  );
  const router = routerOver([upstream], { client: { keys: makeKeys('good', 'bad') } });
  const keys = (): (string | undefined)[] =>
    upstream.requests.splice(0).map(({ headers }) => headers['authorization']?.slice(7));
  expect([await outcome(router), keys()]).toEqual(['upstream_error', ['bad', 'good', 'good', 'good']]);
  expect([await outcome(router), keys()]).toEqual(['upstream_error', ['good', 'good', 'good']]);
});

test('if a route goes down, none of many requests fails while another route works, and the traffic returns later', async () => {
  let isUp = true;
  let nowMs = 1_000_000;
  const first = await upstreamThat((socket, request) => (isUp ? answers(socket, request) : void socket.destroy()));
  const second = await upstreamThat(answers);
  const router = routerOver([first, second], { clock: { now: () => nowMs } });
  const many = async (): Promise<string[]> => [
    ...new Set(await Promise.all(Array.from({ length: 40 }, () => outcome(router)))),
  ];
  expect(await many()).toEqual([`p0: ${text}`]);
  isUp = false;
  expect(await many()).toEqual([`p1: ${text}`]);
  const requested = first.requests.length;
  expect([await many(), first.requests.length]).toEqual([[`p1: ${text}`], requested]);
  isUp = true;
  nowMs += 10_000;
  expect((await many()).toSorted()).toEqual([`p0: ${text}`, `p1: ${text}`]);
  expect(await many()).toEqual([`p0: ${text}`]);
});

test('the client’s request is the same in every attempt, byte for byte', async () => {
  const upstream = await upstreamThat(refuses(500));
  const { request } = makeCall({
    source: { protocol: 1, body: Buffer.from('{"messages":[{"role":"user","content":"é"}],"zz":1,"aa":2}') },
  });
  const router = routerOver([upstream]);
  const run = routedSteps(router, {
    hold: Hold.of({ kind: 'admitted', id: 1 }),
    request: create(GenerateRequestSchema, request),
    signal: new AbortController().signal,
    restartable: false,
    maxOutputTokens: 50,
  });
  await expect(run.next()).rejects.toThrow(GatewayError);
  expect(new Set(upstream.requests.map(({ body }) => body)).size).toBe(1);
  expect(upstream.requests.length).toBe(3);
});
