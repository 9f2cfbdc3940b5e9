import { readFileSync } from 'node:fs';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Role } from '../../src/gen/tollgate/v1/content_pb.ts';
import type { GenerationEvent } from '../../src/gen/tollgate/v1/event_pb.ts';
import { GenerateRequestSchema } from '../../src/gen/tollgate/v1/request_pb.ts';
import { Hold } from '../../src/generation/hold.ts';
import {
  type RunningAttempt,
  type Upstream,
  type UpstreamCall,
  UpstreamFailure,
} from '../../src/generation/upstream.ts';
import { systemRuntime } from '../../src/lib/runtime.ts';
import { chatProtocol } from '../../src/upstreams/protocols.ts';
import { HttpProvider, type HttpUpstreamOptions } from '../../src/upstreams/http-upstream.ts';

/** Timeouts that pass only in tests that wait for them. */
export const patient = { connectMs: 5_000, firstEventMs: 20_000, idleMs: 20_000, totalMs: 40_000 };

/** Returns a client of a Chat upstream. */
export function chatUpstream(baseUrl: string, options: Partial<HttpUpstreamOptions> = {}): HttpProvider {
  return new HttpProvider({
    name: 'local',
    protocol: chatProtocol,
    baseUrl,
    keys: [],
    headers: {},
    timeouts: patient,
    eventBytesMax: 1_000_000,
    takesTokenIds: true,
    proxy: {},
    runtime: systemRuntime,
    ...options,
  });
}

/** Returns keys in the form in which the configuration has them. */
export const makeKeys = (...keys: string[]): { reveal(): string }[] => keys.map(key => ({ reveal: () => key }));

const userText = {
  content: {
    case: 'message' as const,
    value: { role: Role.USER, parts: [{ content: { case: 'text' as const, value: { text: 'hi' } } }] },
  },
};

/** Returns an attempt of a request. */
export function makeCall(
  request: MessageInitShape<typeof GenerateRequestSchema> = {},
  call: Partial<UpstreamCall> = {},
): UpstreamCall {
  return {
    hold: Hold.of({ kind: 'admitted', id: 1 }),
    request: create(GenerateRequestSchema, {
      model: 'acme/large',
      items: [userText],
      ...request,
    }),
    model: 'large-v1',
    maxOutputTokens: undefined,
    attempt: 1,
    whole: false,
    ...call,
  };
}

/** The result of an attempt: its batches, and the failure that ended it. */
export interface Answered {
  readonly batches: GenerationEvent[][];
  readonly events: GenerationEvent[];
  readonly failure: UpstreamFailure | undefined;
}

/** A running attempt. */
export interface ObservedAttempt {
  readonly attempt: RunningAttempt;
  /** The batches of events so far. */
  readonly batches: GenerationEvent[][];
  /** Whether the attempt has ended. */
  hasEnded: boolean;
  /** Resolves when the attempt ends, also with an `UpstreamFailure`; rejects for any other error. */
  readonly answered: Promise<Answered>;
}

/** Starts an attempt. `onBatch` is called synchronously for each batch. */
export function ask(
  upstream: Upstream,
  call: UpstreamCall = makeCall(),
  onBatch: (requested: ObservedAttempt) => void = () => undefined,
): ObservedAttempt {
  const batches: GenerationEvent[][] = [];
  const ending = Promise.withResolvers<Answered>();
  const attempt = upstream.generate(call, {
    events: events => {
      batches.push(events);
      onBatch(requested);
    },
    end: failure => {
      requested.hasEnded = true;
      if (failure !== undefined && !(failure instanceof UpstreamFailure)) ending.reject(failure);
      else ending.resolve({ batches, events: batches.flat(), failure });
    },
  });
  const requested: ObservedAttempt = { attempt, batches, hasEnded: false, answered: ending.promise };
  return requested;
}

/** Reads an attempt to its end. Anything but an `UpstreamFailure` is thrown. */
export async function collectAnswer(upstream: Upstream, call: UpstreamCall = makeCall()): Promise<Answered> {
  return ask(upstream, call).answered;
}

/** Waits. */
export function sleep(ms: number): Promise<void> {
  return new Promise(resolve => {
    setTimeout(resolve, ms);
  });
}

/** Returns the text deltas, joined. */
export function readText(events: readonly GenerationEvent[]): string {
  return events.map(({ event }) => (event.case === 'delta' ? event.value.text : '')).join('');
}

/** Returns whether the answer is complete: it began once and ended once. */
export function isWhole(events: readonly GenerationEvent[]): boolean {
  const cases = events.map(({ event }) => event.case);
  return cases.indexOf('completed') === cases.length - 1 && cases.lastIndexOf('started') === 0;
}

/** A Chat stream with text, two tool calls, usage and `[DONE]`, which every official client can read. */
export const golden = readFileSync(new URL('fixtures/chat_completed.sse', import.meta.url));
