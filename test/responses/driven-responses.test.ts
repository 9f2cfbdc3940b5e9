/** Responses while their upstream, their store and their callers go at different paces. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { ResponseStatus } from '../../src/gen/tollgate/v1/response_pb.ts';
import { openResponses } from './driven-responses.ts';

const fixture = await openResponses();
afterAll(() => fixture.end());

describe('a response that its caller waits for', () => {
  test('reaches the caller synchronously, while the upstream pushes it', async () => {
    const caller = fixture.create();
    const attempt = await fixture.attempt();
    attempt.begin('one ');
    expect(caller.text).toBe('one ');
    attempt.say('two');
    expect(caller.text).toBe('one two');
    attempt.finish();
    expect(await caller.ended).toBeUndefined();
    expect((await fixture.find(caller.id))?.status).toBe(ResponseStatus.COMPLETED);
    expect((await fixture.record(caller.id))?.state).toBe('completed');
  });

  test('whose caller disconnects ends as cancelled, with the delivered output, before the caller’s stream ends', async () => {
    const caller = fixture.create();
    const attempt = await fixture.attempt();
    attempt.begin('one');
    caller.control?.cancel();
    expect(attempt.isCancelled).toBe(true);
    expect(await caller.ended).toMatchObject({ name: 'ConnectError' });
    const response = await fixture.find(caller.id);
    expect(response?.status).toBe(ResponseStatus.CANCELLED);
    expect(response?.output.length).toBe(1);
    expect((await fixture.record(caller.id))?.state).toBe('client_aborted');
    expect(await fixture.held()).toBe(0n);
  });

  test('whose caller disconnects before it is admitted calls no upstream and holds nothing', async () => {
    const before = fixture.attempts.length;
    const caller = fixture.create();
    caller.control?.cancel();
    expect(await caller.ended).toMatchObject({ name: 'ConnectError' });
    expect([fixture.attempts.length, await fixture.held()]).toEqual([before, 0n]);
  });
});

describe('a response in the background', () => {
  test('pauses its upstream while it is being stored; output from the meantime is sent once it is durable, too', async () => {
    const caller = fixture.create({ background: true });
    const attempt = await fixture.attempt();
    await expect.poll(() => caller.messages.length).toBe(1);
    const before = fixture.documents.changes;
    fixture.documents.hold();
    attempt.begin('one ');
    expect(attempt.isPaused).toBe(true);
    attempt.say('two ');
    attempt.say('three');
    expect(fixture.documents.changes).toBe(before + 1);
    expect((await fixture.find(caller.id))?.output).toEqual([]);
    expect(caller.text).toBe('');
    fixture.documents.release();
    await expect.poll(() => caller.text).toBe('one two three');
    expect(await fixture.storedText(caller.id)).toBe('one two three');
    expect([fixture.documents.changes, attempt.isPaused]).toEqual([before + 2, false]);
    attempt.finish();
    expect(await caller.ended).toBeUndefined();
    expect((await fixture.find(caller.id))?.status).toBe(ResponseStatus.COMPLETED);
  });

  test('whose output can’t be stored ends as failed, without a charge, and the cause is reported for the log', async () => {
    const caller = fixture.create({ background: true });
    const attempt = await fixture.attempt();
    attempt.begin('one');
    await expect.poll(() => caller.text).toBe('one');
    attempt.sendUnstorable();
    await caller.ended;
    expect(attempt.isCancelled).toBe(true);
    expect((await fixture.find(caller.id))?.status).toBe(ResponseStatus.FAILED);
    // First the event, then the body with the whole output could not be encoded.
    const defect = {
      responseId: caller.id,
      error: expect.objectContaining({ message: expect.stringContaining('int32') }),
    };
    expect(fixture.defects).toEqual([defect, defect]);
    expect((await fixture.record(caller.id))?.costNanoUsd ?? 0n).toBe(0n);
    expect(await fixture.held()).toBe(0n);
  });

  test('whose output completes while it is being stored is charged once all of it is durable', async () => {
    const caller = fixture.create({ background: true });
    const attempt = await fixture.attempt();
    fixture.documents.hold();
    attempt.begin('one ');
    attempt.say('two');
    attempt.finish();
    expect(await fixture.record(caller.id)).toBeUndefined();
    fixture.documents.release();
    expect(await caller.ended).toBeUndefined();
    expect([caller.text, await fixture.storedText(caller.id)]).toEqual(['one two', 'one two']);
    expect((await fixture.record(caller.id))?.state).toBe('completed');
  });

  test('that can’t be stored is ended and costs nothing', async () => {
    const caller = fixture.create({ background: true });
    const attempt = await fixture.attempt();
    fixture.documents.hold();
    attempt.begin('one ');
    attempt.say('two');
    fixture.documents.fail(new GatewayError('overloaded', 'The disk is full.'));
    await expect.poll(() => attempt.isCancelled).toBe(true);
    fixture.documents.release();
    expect(await caller.ended).toBeUndefined();
    const response = await fixture.find(caller.id);
    expect([response?.status, response?.failure?.code]).toEqual([ResponseStatus.FAILED, 'server_restarted']);
    expect([await fixture.record(caller.id), await fixture.held()]).toEqual([undefined, 0n]);
  });

  test('continues without its caller', async () => {
    const caller = fixture.create({ background: true });
    const attempt = await fixture.attempt();
    attempt.begin('one ');
    await expect.poll(() => caller.text).toBe('one ');
    caller.control?.cancel();
    await caller.ended;
    attempt.say('two');
    attempt.finish();
    await fixture.responses.idle();
    expect([caller.text, await fixture.storedText(caller.id)]).toEqual(['one ', 'one two']);
    expect((await fixture.find(caller.id))?.status).toBe(ResponseStatus.COMPLETED);
  });
});

describe('a response with an Idempotency-Key', () => {
  test('continues when its caller disconnects, even if the caller has paused it; a repeat gets all of it, from one attempt', async () => {
    const before = fixture.attempts.length;
    const key = randomUUID();
    const first = fixture.create({}, key);
    const attempt = await fixture.attempt();
    attempt.begin('one ');
    first.control?.pause();
    expect(attempt.isPaused).toBe(true);
    first.control?.cancel();
    expect([attempt.isPaused, attempt.isCancelled]).toEqual([false, false]);
    expect(await first.ended).toMatchObject({ name: 'ConnectError' });
    first.control?.pause();
    expect(attempt.isPaused).toBe(false);
    expect(await fixture.create({}, key).ended).toMatchObject({ code: 'idempotency_in_progress' });
    attempt.say('two');
    attempt.finish();
    await expect.poll(() => fixture.record(first.id)).toMatchObject({ state: 'completed' });
    const second = fixture.create({}, key);
    expect(await second.ended).toBeUndefined();
    expect([first.text, second.text, second.id]).toEqual(['one ', 'one two', first.id]);
    expect(fixture.attempts.length).toBe(before + 1);
  });

  test('is repeated message by message to a caller that pauses', async () => {
    const key = randomUUID();
    const first = fixture.create({}, key);
    const attempt = await fixture.attempt();
    attempt.begin('one ');
    attempt.say('two');
    attempt.finish();
    await first.ended;
    const second = fixture.create({}, key);
    second.control?.pause();
    await sleep(50);
    expect(second.messages).toEqual([]);
    second.control?.resume();
    expect(await second.ended).toBeUndefined();
    expect(second.messages.length).toBe(first.messages.length);
  });

  test('in the background is started once, and every caller follows it', async () => {
    const before = fixture.attempts.length;
    const key = randomUUID();
    const first = fixture.create({ background: true }, key);
    const attempt = await fixture.attempt();
    attempt.begin('one ');
    await expect.poll(() => first.text).toBe('one ');
    const second = fixture.create({ background: true }, key);
    await expect.poll(() => second.text).toBe('one ');
    attempt.say('two');
    attempt.finish();
    expect([await first.ended, await second.ended]).toEqual([undefined, undefined]);
    expect([first.text, second.text, second.id]).toEqual(['one two', 'one two', first.id]);
    expect(fixture.attempts.length).toBe(before + 1);
  });
});
