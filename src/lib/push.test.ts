import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { pull, pump, type Sink, type StreamControl } from './push.ts';

/** A sink that records its calls. */
class RecordingSink implements Sink<number> {
  readonly messages: number[] = [];
  readonly ends: (Error | undefined)[] = [];

  message(message: number): void {
    this.messages.push(message);
  }

  end(error?: Error): void {
    this.ends.push(error);
  }
}

/** A source whose messages the test pushes. It records the calls of its control. */
class Source implements StreamControl {
  readonly calls: string[] = [];
  sink: Sink<number> | undefined;
  readonly start = (sink: Sink<number>): StreamControl => {
    this.sink = sink;
    return this;
  };

  cancel(): void {
    this.calls.push('cancel');
  }

  pause(): void {
    this.calls.push('pause');
  }

  resume(): void {
    this.calls.push('resume');
  }
}

async function* upTo(count: number, signal?: AbortSignal, taken?: number[]) {
  for (let each = 1; each <= count && signal?.aborted !== true; each += 1) {
    taken?.push(each);
    yield each;
  }
}

describe('pump', () => {
  test('pushes every message in order, then ends once, and calls nothing before it has returned', async () => {
    const heard = new RecordingSink();
    pump(() => upTo(3), heard);
    expect([heard.messages, heard.ends]).toEqual([[], []]);
    await turn();
    expect([heard.messages, heard.ends]).toEqual([[1, 2, 3], [undefined]]);
  });

  test('an error of the source ends the stream, also if it throws before the first read', async () => {
    const failure = new Error('broken');
    const sources = [
      async function* () {
        yield 1;
        throw failure;
      },
      () => {
        throw failure;
      },
    ];
    const ends = [];
    for (const open of sources) {
      const heard = new RecordingSink();
      pump(open, heard);
      await turn();
      ends.push([heard.messages, heard.ends]);
    }
    expect(ends).toEqual([
      [[1], [failure]],
      [[], [failure]],
    ]);
  });

  test('a pause stops reading the source, and resuming continues where it stopped', async () => {
    const taken: number[] = [];
    const heard = new RecordingSink();
    const control = pump(() => upTo(5, undefined, taken), {
      message: message => {
        heard.message(message);
        if (message === 2) control.pause();
      },
      end: error => heard.end(error),
    });
    await turn();
    expect([heard.messages, taken, heard.ends]).toEqual([[1, 2], [1, 2], []]);
    control.resume();
    control.resume();
    await turn();
    expect([heard.messages, heard.ends]).toEqual([[1, 2, 3, 4, 5], [undefined]]);
  });

  test('after a cancel it reads a paused source to its end and passes nothing on; later calls change nothing', async () => {
    const heard = new RecordingSink();
    const log: string[] = [];
    const control = pump(async function* (signal) {
      yield 1;
      yield 2;
      log.push(`settled, ${signal.aborted}`);
    }, heard);
    control.pause();
    await turn();
    expect(heard.messages).toEqual([]);
    control.cancel();
    control.pause();
    control.cancel();
    await turn();
    expect([heard.messages, heard.ends, log]).toEqual([[], [undefined], ['settled, true']]);
    control.resume();
    control.cancel();
    await turn();
    expect(heard.ends).toHaveLength(1);
  });
});

describe('pull', () => {
  test('returns the pushed values in order, then throws the error that the stream ended with', async () => {
    const source = new Source();
    const messages = pull(source.start);
    const first = messages.next();
    source.sink?.message(1);
    source.sink?.message(2);
    source.sink?.end(new Error('broken'));
    expect([(await first).value, (await messages.next()).value]).toEqual([1, 2]);
    await expect(messages.next()).rejects.toThrow('broken');
    expect(await messages.next()).toEqual({ done: true, value: undefined });
  });

  test('a stream that no one reads never begins', async () => {
    const source = new Source();
    const messages = pull(source.start);
    expect(await messages.return?.()).toEqual({ done: true, value: undefined });
    expect(await messages.next()).toEqual({ done: true, value: undefined });
    expect([source.sink, source.calls]).toEqual([undefined, []]);
  });

  test('the source is paused once while a message is unread, and continues when the reader continues', async () => {
    const source = new Source();
    const messages = pull(source.start);
    const first = messages.next();
    source.sink?.message(1);
    expect(source.calls).toEqual([]);
    source.sink?.message(2);
    source.sink?.message(3);
    expect(source.calls).toEqual(['pause']);
    expect([(await first).value, (await messages.next()).value, (await messages.next()).value]).toEqual([1, 2, 3]);
    expect(source.calls).toEqual(['pause']);
    const fourth = messages.next();
    expect(source.calls).toEqual(['pause', 'resume']);
    source.sink?.message(4);
    expect(await fourth).toEqual({ done: false, value: 4 });
  });

  test('an aborted signal cancels the source; the reader gets no more messages, and rejects with the reason once the source has ended', async () => {
    const source = new Source();
    const caller = new AbortController();
    const messages = pull(source.start, caller.signal);
    const first = messages.next();
    source.sink?.message(1);
    source.sink?.message(2);
    await first;
    caller.abort(new Error('gone'));
    expect(source.calls).toEqual(['pause', 'cancel']);
    source.sink?.message(3);
    let isOver = false;
    const next = messages.next().finally(() => (isOver = true));
    await turn();
    expect(isOver).toBe(false);
    source.sink?.end();
    await expect(next).rejects.toThrow('gone');
  });

  test('a signal that is already aborted cancels at once; one that is aborted after the end changes nothing', async () => {
    const early = new Source();
    const failed = pull(early.start, AbortSignal.abort(new Error('gone'))).next();
    early.sink?.end();
    await expect(failed).rejects.toThrow('gone');
    expect(early.calls).toEqual(['cancel']);
    const late = new Source();
    const caller = new AbortController();
    const messages = pull(late.start, caller.signal);
    const last = messages.next();
    late.sink?.message(1);
    late.sink?.end();
    caller.abort(new Error('gone'));
    expect([await last, await messages.next()]).toEqual([
      { done: false, value: 1 },
      { done: true, value: undefined },
    ]);
    expect(late.calls).toEqual([]);
  });

  test('a reader that disconnects waits until the source has ended', async () => {
    const source = new Source();
    const messages = pull(source.start);
    const first = messages.next();
    source.sink?.message(1);
    await first;
    let left = false;
    const leaving = messages.return?.().then(() => (left = true));
    source.sink?.message(2);
    await turn();
    expect([left, source.calls]).toEqual([false, ['cancel']]);
    source.sink?.end(new Error('nobody hears this'));
    await leaving;
    expect(await messages.next()).toEqual({ done: true, value: undefined });
  });
});

test('a source that is pushed and then pulled is read at most one message ahead', async () => {
  const taken: number[] = [];
  const messages = pull<number>(sink => pump(() => upTo(100, undefined, taken), sink));
  for (let each = 1; each <= 10; each += 1) {
    expect((await messages.next()).value).toBe(each);
    await turn();
    expect(taken.length).toBeLessThanOrEqual(each + 1);
  }
  expect((await Array.fromAsync(messages)).length).toBe(90);
});
