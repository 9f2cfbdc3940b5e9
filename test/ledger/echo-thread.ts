/** The thread of `call-thread.test.ts`: replies to each call with its number, to odd ones later. */
import { serveCalls } from '../../src/lib/threads/serve-calls.ts';
import { isLater, type EchoCall } from './echo-calls.ts';

/** The numbers of the calls that wait. */
const waiting: number[] = [];

serveCalls<EchoCall, number>({
  run(batch, post) {
    const later = batch.filter(isLater);
    if (later.length < batch.length)
      post(
        'now',
        batch.map(call => (isLater(call) ? undefined : call.number)),
      );
    if (later.length === 0) return;
    waiting.push(...later.map(({ number }) => number));
    // A random time after the call, all that wait or only some.
    setTimeout(() => {
      const some = waiting.splice(0, Math.ceil(Math.random() * waiting.length));
      if (some.length > 0) post('later', some);
    }, Math.random() * 3);
    setTimeout(() => {
      if (waiting.length > 0) post('later', waiting.splice(0));
    }, 5);
  },
  end: () => undefined,
});
