import { once } from 'node:events';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import {
  type RunningAttempt,
  type Upstream,
  type UpstreamCall,
  UpstreamFailure,
  type UpstreamReceiver,
} from '../../generation/upstream.ts';
import { pull, pump } from '../../lib/push.ts';
import type { BegunAnswer, RoutedRequest } from './routed-call.ts';
import type { Router } from './router.ts';

/** Reads a routed answer step by step, for tests. */

/** One step that the reader receives. */
export type RoutedStep =
  | ({ readonly kind: 'begun' } & BegunAnswer)
  | { readonly kind: 'events'; readonly events: GenerationEvent[] };

/** The request of a test, and how its answer is read. */
export interface ReaderOptions extends Omit<RoutedRequest, 'whole' | 'requestId'> {
  readonly signal: AbortSignal;
  /** Validates events. Returns an error if they are wrong: an `UpstreamFailure` fails the attempt, any other error ends the request. Absent: all events are accepted. */
  readonly judge?: (events: readonly GenerationEvent[]) => Error | undefined;
}

/** Returns the steps of a routed answer. If the test stops reading, the call ends as when its receiver needs no more of the answer (`enough`); if the signal is aborted, as when the answer is no longer wanted (`cancel`). */
export function routedSteps(
  router: Router,
  { signal, judge, ...routed }: ReaderOptions,
): AsyncIterableIterator<RoutedStep> {
  return pull<RoutedStep>(sink => {
    if (signal.aborted) {
      queueMicrotask(() => sink.end());
      return { cancel: nothing, pause: nothing, resume: nothing };
    }
    const call = router.route(
      { ...routed, requestId: 'req_1', whole: false },
      {
        attemptStarted: nothing,
        attemptFailed: nothing,
        begun: answer => sink.message({ kind: 'begun', ...answer }),
        events: events => {
          sink.message({ kind: 'events', events });
          return judge?.(events);
        },
        end: error => sink.end(error),
      },
    );
    call.start();
    return {
      cancel: () => {
        if (signal.aborted) call.cancel();
        else call.enough();
        sink.end();
      },
      pause: () => call.pause(),
      resume: () => call.resume(),
    };
  }, signal);
}

/** One step of a scripted upstream: it sends events, fails with an error, or (`hang`) waits until the call is cancelled. */
export type ScriptStep = GenerationEvent[] | Error | 'hang';

/** An upstream that answers each call with the steps that `script` returns for it. */
export class ScriptedUpstream implements Upstream {
  readonly calls: UpstreamCall[] = [];
  readonly script: (call: UpstreamCall) => readonly ScriptStep[];
  /** How many calls were cancelled. */
  cancelledCount = 0;

  constructor(script: (call: UpstreamCall) => readonly ScriptStep[]) {
    this.script = script;
  }

  generate(call: UpstreamCall, receiver: UpstreamReceiver): RunningAttempt {
    this.calls.push(call);
    const script = this.script(call);
    let isOver = false;
    const control = pump<GenerationEvent[]>(signal => perform(script, signal), {
      message: events => (isOver ? undefined : receiver.events(events)),
      end: failure => (isOver ? undefined : receiver.end(failure)),
    });
    return {
      pause: () => control.pause(),
      resume: () => control.resume(),
      cancel: () => {
        isOver = true;
        this.cancelledCount += 1;
        control.cancel();
      },
    };
  }
}

async function* perform(
  script: readonly ScriptStep[],
  signal: AbortSignal,
): AsyncGenerator<GenerationEvent[], void, undefined> {
  let isWhole = false;
  for (const step of script) {
    await Promise.resolve();
    if (step === 'hang') await once(signal, 'abort');
    else if (step instanceof Error) throw step;
    else {
      isWhole = step.at(-1)?.event.case === 'completed';
      yield step;
    }
  }
  if (!isWhole) throw new UpstreamFailure('truncated');
}

function nothing(): void {
  // Does nothing.
}
