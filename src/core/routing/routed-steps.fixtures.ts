import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import type { RunningAttempt, UpstreamReceiver } from '../../generation/upstream.ts';
import { pull, pump } from '../../lib/push.ts';
import type { BegunAnswer, RoutedRequest } from './routed-call.ts';
import type { Router } from './router.ts';

/** A routed answer for tests that read it step by step. */

/** What the reader gets. */
export type RoutedStep =
  | ({ readonly kind: 'begun' } & Omit<BegunAnswer, 'mayPause'>)
  | { readonly kind: 'events'; readonly events: GenerationEvent[] };

/** How a test reads. */
export interface Reading extends Omit<RoutedRequest, 'whole'> {
  readonly signal: AbortSignal;
  /** Judges events: see `RoutedReceiver.events`. Absent: all are well. */
  readonly judge?: (events: readonly GenerationEvent[]) => Error | undefined;
}

/** Reads a routed answer. A reader that stops has had enough; one whose signal is aborted has left. */
export function routedSteps(router: Router, { signal, judge, ...routed }: Reading): AsyncIterableIterator<RoutedStep> {
  return pull<RoutedStep>(sink => {
    if (signal.aborted) {
      queueMicrotask(() => sink.end());
      return { cancel: nothing, pause: nothing, resume: nothing };
    }
    const call = router.route(
      { ...routed, whole: false },
      {
        attemptStarted: nothing,
        attemptFailed: nothing,
        begun: ({ route, attempt, calls }) => sink.message({ kind: 'begun', route, attempt, calls }),
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

/** A scripted upstream's answer as an attempt. `act` throws what it fails with; its signal is aborted if it is cancelled. */
export function scriptedAttempt(
  act: (signal: AbortSignal) => AsyncIterable<GenerationEvent[]>,
  receiver: UpstreamReceiver,
): RunningAttempt {
  let isOver = false;
  const control = pump(act, {
    message: events => (isOver ? undefined : receiver.events(events)),
    end: failure => (isOver ? undefined : receiver.end(failure)),
  });
  return {
    cancel: () => {
      isOver = true;
      control.cancel();
    },
    pause: () => control.pause(),
    resume: () => control.resume(),
  };
}

function nothing(): void {
  // Nobody wants to know.
}
