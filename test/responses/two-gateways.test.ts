/** Responses that run at one gateway and are read at another one; both share the stores. */
import { create } from '@bufbuild/protobuf';
import { afterAll, expect, test } from 'vitest';
import {
  FollowResponseRequestSchema,
  type FollowResponseResponse,
  ResponseService,
  ResponseStatus,
} from '../../src/gen/tollgate/v1/response_pb.ts';
import { MemoryClaims } from '../../src/store/claims.ts';
import { openResponses } from './driven-responses.ts';

const fixture = await openResponses(new MemoryClaims());
afterAll(() => fixture.end());

const { getResponse, followResponse, cancelResponse } = ResponseService.method;

async function readElsewhere(id: string) {
  const request = { $typeName: 'tollgate.v1.GetResponseRequest' as const, id, include: [] };
  return (await fixture.other.ask(getResponse, request, fixture.headers())).response;
}

/** Follows a response at the other gateway. */
function followElsewhere(id: string): {
  readonly messages: FollowResponseResponse[];
  readonly ended: Promise<unknown>;
} {
  const messages: FollowResponseResponse[] = [];
  const { promise: ended, resolve } = Promise.withResolvers<unknown>();
  const sink = { message: (message: FollowResponseResponse) => void messages.push(message), end: resolve };
  fixture.other.push(followResponse, create(FollowResponseRequestSchema, { id }), fixture.headers(), sink);
  return { messages, ended };
}

test('another gateway shows the progress of a response, and follows it to its end', async () => {
  const caller = fixture.create({ background: true });
  const attempt = await fixture.attempt();
  await expect.poll(() => caller.messages.length).toBe(1);
  expect((await readElsewhere(caller.id))?.status).toBe(ResponseStatus.QUEUED);
  attempt.begin('one ');
  await expect.poll(async () => (await readElsewhere(caller.id))?.status).toBe(ResponseStatus.IN_PROGRESS);
  const follower = followElsewhere(caller.id);
  await expect.poll(() => follower.messages.flatMap(({ events }) => events).length).toBeGreaterThan(0);
  attempt.say('two');
  attempt.finish();
  expect(await follower.ended).toBeUndefined();
  const cases = follower.messages.flatMap(({ events }) => events).map(({ event }) => event.case);
  expect([cases.at(0), cases.at(-1)]).toEqual(['started', 'completed']);
  const [end] = follower.messages.flatMap(({ end: each }) => each ?? []);
  expect(end?.status).toBe(ResponseStatus.COMPLETED);
  expect((await readElsewhere(caller.id))?.status).toBe(ResponseStatus.COMPLETED);
});

test('a response that is cancelled at another gateway ends at the one that runs it, and what was delivered is charged', async () => {
  const caller = fixture.create({ background: true });
  const attempt = await fixture.attempt();
  attempt.begin('one ');
  await expect.poll(() => fixture.storedText(caller.id)).toContain('one');
  const request = { $typeName: 'tollgate.v1.CancelResponseRequest' as const, id: caller.id };
  const { response } = await fixture.other.ask(cancelResponse, request, fixture.headers());
  expect(response?.status).toBe(ResponseStatus.CANCELLED);
  expect(attempt.isCancelled).toBe(true);
  await expect.poll(async () => (await fixture.record(caller.id))?.state).toBe('client_aborted');
  expect(await fixture.held()).toBe(0n);
});
