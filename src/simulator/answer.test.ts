import { describe, expect, test } from 'vitest';
import type { Item } from '../gen/tollgate/v1/content_pb.ts';
import { FinishReason } from '../gen/tollgate/v1/event_pb.ts';
import { Endpoint } from '../gen/tollgate/v1/request_pb.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { type Runtime, systemRuntime } from '../lib/runtime.ts';
import { type Answer, ask, askToFail, start, user } from './fixtures/ask.ts';
import { createSimulator } from './simulator.ts';

const simulator = createSimulator({ tokensPerSecond: 0, steering: true });

function textDeltas(answer: Answer): number {
  return answer.events.filter(({ event }) => event.case === 'delta').length;
}

/** Returns the system's runtime, with a function that returns how many of its timers are pending. */
function countedTimers(): { runtime: Runtime; timers: () => number } {
  const waiting = new Set<object>();
  const after: Runtime['after'] = (ms, run) => {
    const timer = systemRuntime.after(ms, () => {
      waiting.delete(timer);
      run();
    });
    waiting.add(timer);
    const cancel = (): void => {
      waiting.delete(timer);
      timer.cancel();
    };
    return { cancel, restart: again => timer.restart(again) };
  };
  return { runtime: { ...systemRuntime, after }, timers: () => waiting.size };
}

function sleep(ms: number): Promise<void> {
  return new Promise(resolve => {
    setTimeout(resolve, ms);
  });
}

describe('the steering line', () => {
  test('sets the exact number of tokens, whatever the tokens are', async () => {
    for (const text of ['boats', '北京今天的天气怎么样🦄🦄🦄🫠']) {
      for (const tokens of [0, 1, 2, 7, 8, 9, 10, 11, 12, 13, 200]) {
        const answer = await ask(simulator, { items: [user(`${text}\n!sim tokens=${tokens}`)] });
        expect(answer.completed?.usage?.outputTokens).toBe(tokens);
        expect(answer.finished[0]?.reason).toBe(FinishReason.STOP);
      }
    }
  });

  test('exceeds no limit, unless the line says to ignore it', async () => {
    const kept = await ask(simulator, { items: [user('!sim tokens=100')], maxOutputTokens: 20 });
    expect(kept.completed?.usage?.outputTokens).toBe(20);
    expect(kept.finished[0]?.reason).toBe(FinishReason.LENGTH);
    const ignored = await ask(simulator, { items: [user('!sim tokens=100 ignore=max_tokens')], maxOutputTokens: 20 });
    expect(ignored.completed?.usage?.outputTokens).toBe(100);
    const beyond = await ask(simulator, { items: [user('!sim tokens=17408 ignore=max_tokens')] });
    expect(beyond.completed?.usage?.outputTokens).toBe(17_408);
  });

  test('says exactly its text', async () => {
    const text = 'Straße  <|endoftext|> "quoted" = 🦄 ';
    expect((await ask(simulator, { items: [user(`Hi\n!sim say=${text}`)] })).text).toBe(text);
  });

  test('makes it ignore stop sequences', async () => {
    const answer = await ask(simulator, { items: [user('!sim ignore=stop say=a STOP b')], stop: ['STOP'] });
    expect(answer.text).toBe('a STOP b');
    expect(answer.finished[0]?.matchedStop).toBeUndefined();
  });

  test.each([
    ['stop', FinishReason.STOP, 'stop', 'end_turn'],
    ['length', FinishReason.LENGTH, 'length', 'max_tokens'],
    ['refusal', FinishReason.REFUSAL, 'content_filter', 'refusal'],
    ['context_window', FinishReason.CONTEXT_WINDOW, 'length', 'model_context_window_exceeded'],
    ['pause', FinishReason.PAUSE, 'pause_turn', 'pause_turn'],
  ])('ends with finish=%s, in the words of the interface', async (finish, reason, other, messages) => {
    const items = [user(`!sim finish=${finish}`)];
    expect((await ask(simulator, { items })).finished[0]).toMatchObject({ reason, native: other });
    const answer = await ask(simulator, { items, endpoint: Endpoint.MESSAGES });
    expect(answer.finished[0]).toMatchObject({ reason, native: messages });
  });

  test('makes it refuse in a refusal part, with details', async () => {
    const answer = await ask(simulator, { items: [user('!sim finish=refusal say=No.')] });
    const [message] = answer.items;
    expect(message?.content.case === 'message' && message.content.value.parts[0]?.content.case).toBe('refusal');
    expect(answer.text).toBe('No.');
    expect(JSON.parse(answer.finished[0]?.detailsJson ?? '')).toMatchObject({ type: 'refusal' });
  });

  test('pauses twice and then continues to the same end, called again with the output so far', async () => {
    const whole = 'One two three four five six seven eight nine ten eleven twelve.';
    for (const isMerged of [false, true]) {
      const said: Item[] = [];
      const reasons: unknown[] = [];
      let text = '';
      for (let call = 0; call < 3; call += 1) {
        const answer = await ask(simulator, { items: [user(`!sim finish=pause say=${whole}`), ...said] });
        reasons.push(answer.finished[0]?.reason);
        text += answer.text;
        const [item] = answer.items;
        if (isMerged && item?.content.case === 'message') {
          const part = item.content.value.parts[0]?.content;
          if (part?.case === 'text') part.value.text = text;
          said.splice(0, 1, item);
        } else said.push(...answer.items);
      }
      expect(reasons).toEqual([FinishReason.PAUSE, FinishReason.PAUSE, FinishReason.STOP]);
      expect(text).toBe(whole);
    }
  });

  test('pauses in an answer of few words without ever opening an empty text', async () => {
    for (const words of ['one', 'one two', 'one two three', 'one two three four', 'one two three four five']) {
      const texts: string[] = [];
      const said: Item[] = [];
      let reason: FinishReason | undefined = FinishReason.PAUSE;
      for (let call = 0; call < 3 && reason === FinishReason.PAUSE; call += 1) {
        const answer = await ask(simulator, { items: [user(`!sim finish=pause say=${words}`), ...said] });
        reason = answer.finished[0]?.reason;
        if (answer.items.length > 0) texts.push(answer.text);
        said.push(...answer.items);
      }
      expect({ words, reason }).toEqual({ words, reason: FinishReason.STOP });
      expect(texts.join('')).toBe(words);
      expect(texts).not.toContain('');
    }
  });

  test('reports no usage if the line says so', async () => {
    const answer = await ask(simulator, { items: [user('!sim usage=none')] });
    expect(answer.completed?.usage).toBeUndefined();
    expect(answer.events[0]?.event.case === 'started' && answer.events[0].event.value.usage).toBeUndefined();
  });

  test('answers with a status on the first tries, or always', async () => {
    const items = [user('!sim status=503 times=2')];
    for (const attempt of [1, 2]) {
      const { answer, failure } = await askToFail(simulator, { items }, { attempt });
      expect(answer.events).toEqual([]);
      expect(failure).toMatchObject({ kind: 'status', facts: { status: 503, requested: true } });
    }
    expect((await ask(simulator, { items }, { attempt: 3 })).finished).toHaveLength(1);
    const always = await askToFail(simulator, { items: [user('!sim status=418')] }, { attempt: 99 });
    expect(always.failure).toMatchObject({ facts: { status: 418, requested: true } });
  });

  test.each([
    ['fail=3', 'reported', 3],
    ['cut=3', 'truncated', 3],
    ['fail=0', 'reported', 0],
    ['cut=0', 'truncated', 0],
    ['fail=200', 'reported', 200],
    ['cut=9 fail=3', 'reported', 3],
    ['fail=9 say=short', 'reported', 1],
  ])('breaks with %s', async (fault, kind, deltas) => {
    const { answer, failure } = await askToFail(simulator, { items: [user(`!sim ${fault}`)] });
    expect(failure).toBeInstanceOf(UpstreamFailure);
    expect(failure).toMatchObject({ kind, facts: { requested: true } });
    expect(answer.events[0]?.event.case).toBe('started');
    expect(textDeltas(answer)).toBe(deltas);
    expect(answer.finished).toEqual([]);
    expect(answer.completed).toBeUndefined();
  });

  test('sends nothing more until it is cancelled, and then stops at once', async () => {
    const { runtime, timers } = countedTimers();
    const counted = createSimulator({ tokensPerSecond: 0, steering: true, runtime });
    const requested = start(counted, { items: [user('!sim stall=2 tps=1000')] });
    const hasEnded = Promise.race([requested.ended.then(() => true), sleep(150).then(() => false)]);
    await sleep(100);
    expect([textDeltas(requested.sofar()), timers()]).toEqual([2, 1]);
    requested.attempt.cancel();
    expect([await hasEnded, textDeltas(requested.sofar()), timers()]).toEqual([false, 2, 0]);
  });

  test('waits before the first event, and can be cancelled meanwhile', async () => {
    const begun = performance.now();
    await ask(simulator, { items: [user('!sim delay_ms=120')] });
    expect(performance.now() - begun).toBeGreaterThan(115);
    const { runtime, timers } = countedTimers();
    const counted = createSimulator({ tokensPerSecond: 0, steering: true, runtime });
    const { attempt, sofar } = start(counted, { items: [user('!sim delay_ms=600000')] });
    await sleep(50);
    expect(timers()).toBe(1);
    attempt.cancel();
    await sleep(20);
    expect([sofar().events, timers()]).toEqual([[], 0]);
  });

  test('that can’t be read is refused before any output', async () => {
    const { answer, failure } = await askToFail(simulator, { items: [user('!sim speed=9')] });
    expect(answer.events).toEqual([]);
    expect(failure).toMatchObject({ kind: 'status', facts: { status: 400, requested: true } });
  });

  test('counts only in the last user text, and not at all if steering is off', async () => {
    const items = [user('!sim status=500'), user('Hello')];
    expect((await ask(simulator, { items })).finished).toHaveLength(1);
    const plain = createSimulator({ tokensPerSecond: 0, steering: false });
    const answer = await ask(plain, { items: [user('!sim status=500')] });
    expect(answer.text).toContain('“!sim status=500”');
  });
});

describe('the pace', () => {
  test('is kept: as many tokens a second as configured, a few at a time', async () => {
    const start = performance.now();
    const answer = await ask(createSimulator({ tokensPerSecond: 200, steering: true }), {
      items: [user('!sim tokens=100')],
    });
    const elapsed = performance.now() - start;
    expect(elapsed).toBeGreaterThan(470);
    expect(elapsed).toBeLessThan(1_500);
    expect(answer.batches.length).toBeGreaterThan(8);
    expect(answer.batches[0]?.[0]?.event.case).toBe('started');
  });

  test('of the line wins over the configured one, in both directions', async () => {
    const slow = createSimulator({ tokensPerSecond: 1, steering: true });
    const start = performance.now();
    await ask(slow, { items: [user('!sim tokens=1000 tps=0')] });
    expect(performance.now() - start).toBeLessThan(900);
    const paced = performance.now();
    await ask(simulator, { items: [user('!sim tokens=30 tps=100')] });
    expect(performance.now() - paced).toBeGreaterThan(270);
  });

  test('keeps no timer and no busy loop after it is cancelled', async () => {
    const { runtime, timers } = countedTimers();
    const counted = createSimulator({ tokensPerSecond: 10, steering: true, runtime });
    const { attempt, sofar } = start(counted, { items: [user('!sim tokens=1000')] });
    await expect.poll(() => timers()).toBe(1);
    const before = sofar().events.length;
    attempt.cancel();
    await sleep(250);
    expect([before > 0, sofar().events.length, timers()]).toEqual([true, before, 0]);
  });

  test('waits while its receiver has paused it, and then continues', async () => {
    const { attempt, sofar, ended } = start(simulator, { items: [user('!sim tokens=1000 tps=0')] });
    attempt.pause();
    await sleep(50);
    expect(sofar().events).toEqual([]);
    attempt.resume();
    await expect.poll(() => sofar().events.length).toBeGreaterThan(0);
    attempt.pause();
    await sleep(20);
    const paused = sofar().events.length;
    await sleep(50);
    expect(sofar().events.length).toBe(paused);
    attempt.resume();
    expect([await ended, sofar().completed?.usage?.outputTokens]).toEqual([undefined, 1_000]);
  });

  test('of 0 lets others run meanwhile', async () => {
    let turns = 0;
    let isDone = false;
    const count = (): void => {
      turns += 1;
      if (!isDone) setImmediate(count);
    };
    setImmediate(count);
    const answer = await ask(simulator, { items: [user('!sim tokens=10000')] });
    isDone = true;
    expect(answer.batches.length).toBeGreaterThan(100);
    expect(turns).toBeGreaterThan(100);
  });
});
