/** The faults of an upstream and the moments at which they happen, as the bytes that it writes, and the documented meaning of each. */
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Behaviour, chunk, lastChunk, streamHead, whole } from '../upstreams/raw-upstream.ts';
import { argumentParts, type Counts, type Wire, words } from './upstream-wires.ts';

/** The content of the whole answer. */
export const wholeAnswer = {
  text: words.join(''),
  arguments: argumentParts.join(''),
  toolName: 'get_weather',
  finish: 'tool_calls',
  outputText: `${words.join('')}get_weather${argumentParts.join('')}`,
} as const;

const half = (text: string): string => text.slice(0, Math.floor(text.length / 2));

/** How much of an answer was sent. */
export type Stage =
  /** No event. */
  | 'nothing'
  /** Some output. */
  | 'output'
  /** The model's finish reason; only usage or the formal end may be missing. */
  | 'finished';

/** A moment at which a fault happens. */
export interface Moment {
  readonly stage: Stage;
  /** The bytes that the upstream sent before the fault, with the head; absent: none. */
  readonly sent?: Buffer;
  /** The output in `sent`. */
  readonly delivered: string;
  /** Whether `sent` has the usage. */
  readonly usage?: true;
  /** Set if the moment is impossible in a protocol that sends the finish reason together with the usage. */
  readonly needsFinish?: true;
}

const streamed = (text: string): Buffer =>
  Buffer.concat([Buffer.from(streamHead), ...(text === '' ? [] : [chunk(text)])]);

const usageCounts: Counts = { input: 40, cached: 10, output: 20 };

/** Returns every moment for an upstream of the protocol. */
export function listMoments(wire: Wire) {
  const { begun, texts, call, finish } = wire;
  const usage = wire.usage(wire.counts(usageCounts));
  const output = begun + texts.join('') + call.map(({ frame }) => frame).join('');
  // A call that comes whole is cut within its only event.
  const shown = call.slice(0, Math.max(0, call.length - 2));
  const partOfCall = shown.map(({ frame }) => frame).join('') + half(call[shown.length]?.frame ?? '');
  return {
    'before the head': { stage: 'nothing', delivered: '' },
    'in the head': { stage: 'nothing', sent: Buffer.from(half(streamHead)), delivered: '' },
    'after the head': { stage: 'nothing', sent: streamed(''), delivered: '' },
    'in the first event': { stage: 'nothing', sent: streamed(half(begun)), delivered: '' },
    // The opening frames are held back until there is output.
    'after the role': { stage: 'nothing', sent: streamed(begun), delivered: '' },
    'in a text event': {
      stage: 'output',
      sent: streamed(begun + texts.slice(0, 2).join('') + half(texts[2] ?? '')),
      delivered: words.slice(0, 2).join(''),
    },
    'in a tool call': {
      stage: 'output',
      sent: streamed(begun + texts.join('') + partOfCall),
      delivered: words.join('') + shown.map(part => part.shown).join(''),
    },
    'before the finish': { stage: 'output', sent: streamed(output), delivered: wholeAnswer.outputText },
    'after the finish': {
      stage: 'finished',
      sent: streamed(output + (finish ?? '')),
      delivered: wholeAnswer.outputText,
      needsFinish: true,
    },
    'after the usage': {
      stage: 'finished',
      sent: streamed(output + (finish ?? '') + usage),
      delivered: wholeAnswer.outputText,
      usage: true,
    },
    'in a JSON answer': {
      stage: 'nothing',
      sent: Buffer.concat([
        Buffer.from('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n'),
        chunk(half(wire.whole(wire.counts(usageCounts)))),
      ]),
      delivered: '',
    },
  } as const satisfies Record<string, Moment>;
}
/** The name of a moment. */
export type MomentName = keyof ReturnType<typeof listMoments>;

/** What a fault means for the client: an error of the upstream, its silence, an error that it reports, or the meaning of a status. */
export type Meaning = 'error' | 'timeout' | 'reported' | 'rejected' | 'busy';

/** A fault of an upstream. */
export interface Fault {
  readonly meaning: Meaning;
  /** Causes the fault on a connection on which the moment's bytes were written; absent: no server listens. */
  readonly strike?: (socket: Socket, wire: Wire) => unknown;
  /** A moment at which the fault can be noticed only by a timeout. */
  readonly unnoticed?: MomentName;
  /** The moments at which the fault can happen, and the reason why it can't happen at others. */
  readonly only?: { readonly at: readonly MomentName[]; readonly because: string };
}

const atHead = { at: ['before the head'], because: 'the status line is the first thing of an answer' } as const;
const inBody = {
  at: [
    'after the head',
    'in the first event',
    'after the role',
    'in a text event',
    'in a tool call',
    'before the finish',
    'after the finish',
    'after the usage',
    'in a JSON answer',
  ],
  because: 'needs a body',
} as const;
const inStream = {
  at: ['after the head', 'after the role', 'before the finish', 'after the finish', 'after the usage'],
  because: 'needs a stream between two events',
} as const;

const status =
  (code: number, headers: Record<string, string> = {}) =>
  (socket: Socket): unknown =>
    socket.write(whole(code, JSON.stringify({ error: { message: 'the upstream says why', type: 'x' } }), headers));
const errorEvent =
  (message: string, code: number) =>
  (socket: Socket, wire: Wire): unknown =>
    socket.write(chunk(wire.error(message, code)));

/** Sends a head byte by byte, so slowly that the gateway's timeout passes. */
async function dripHead(socket: Socket): Promise<void> {
  for (const byte of streamHead) {
    if (socket.destroyed) return;
    socket.write(byte);
    await sleep(100);
  }
}

/** The faults, by name. */
export const faults = {
  refused: { meaning: 'error', only: { at: ['before the head'], because: 'a refused connection sends nothing' } },
  reset: { meaning: 'error', strike: socket => socket.resetAndDestroy() },
  close: { meaning: 'error', strike: socket => socket.end() },
  stall: { meaning: 'timeout', strike: () => undefined },
  'slow headers': { meaning: 'timeout', strike: dripHead, only: atHead },
  'broken framing': { meaning: 'error', strike: socket => socket.write('\0 this is not HTTP\r\n\r\n') },
  truncated: { meaning: 'error', strike: socket => socket.write(lastChunk), only: inBody },
  garbage: {
    meaning: 'error',
    strike: socket => socket.write(chunk('\n\ndata: {"choices":[{"del\0}}\n\n')),
    unnoticed: 'in a JSON answer',
    only: inBody,
  },
  'oversized event': {
    meaning: 'error',
    strike: socket => socket.write(chunk(`data: {"x":"${'y'.repeat(40_000)}`)),
    only: inBody,
  },
  'error event': {
    meaning: 'reported',
    strike: errorEvent('out of memory', 500),
    only: inStream,
  },
  '429 event': {
    meaning: 'reported',
    strike: errorEvent('slow down', 429),
    only: inStream,
  },
  'status 302': { meaning: 'error', strike: status(302, { location: 'http://127.0.0.1:9/' }), only: atHead },
  'status 400': { meaning: 'rejected', strike: status(400), only: atHead },
  'status 401': { meaning: 'error', strike: status(401), only: atHead },
  'status 403': { meaning: 'error', strike: status(403), only: atHead },
  'status 404': { meaning: 'error', strike: status(404), only: atHead },
  'status 408': { meaning: 'error', strike: status(408), only: atHead },
  'status 409': { meaning: 'error', strike: status(409), only: atHead },
  'status 413': { meaning: 'rejected', strike: status(413), only: atHead },
  'status 422': { meaning: 'rejected', strike: status(422), only: atHead },
  'status 429': { meaning: 'busy', strike: status(429, { 'retry-after': '7' }), only: atHead },
  'status 500': { meaning: 'error', strike: status(500), only: atHead },
  'status 503': { meaning: 'busy', strike: status(503, { 'retry-after': '7' }), only: atHead },
  'status 204': { meaning: 'error', strike: socket => socket.write('HTTP/1.1 204 No Content\r\n\r\n'), only: atHead },
} as const satisfies Record<string, Fault>;
/** The name of a fault. */
export type FaultName = keyof typeof faults;

/** A usage that an upstream reports (missing, wrong or unusual), and the tokens that are charged for it; absent: the gateway's estimate. */
export interface UsageCase {
  /** The usage that is sent; undefined: none. */
  readonly sent: unknown;
  /** A usage that is sent while the answer runs; absent: none. */
  readonly before?: unknown;
  readonly charged: ChargedUsage;
}

/** Returns every usage for an upstream of the protocol. */
export function listUsages({ counts, countsApart }: Wire): Readonly<Record<UsageName, UsageCase>> {
  const right = { input: 30, cacheRead: 10, output: 20 };
  const tooMuchCached = countsApart ? { cacheRead: 400, output: 20 } : { input: 40, cacheRead: 400, output: 20 };
  return {
    right: { sent: counts(usageCounts), charged: right },
    missing: { sent: undefined, charged: {} },
    null: { sent: null, charged: {} },
    zeros: { sent: counts({ input: 0, output: 0 }), charged: {} },
    negative: { sent: counts({ input: -40, output: -20 }), charged: {} },
    strings: { sent: counts({ input: 40, output: 20, asText: true }), charged: {} },
    fractions: { sent: counts({ input: 40.5, output: 20.5 }), charged: {} },
    'not an object': { sent: [40, 20], charged: {} },
    'only the input': { sent: counts({ input: 40 }), charged: { input: 40, cacheRead: 0 } },
    'only the output': { sent: counts({ output: 20 }), charged: { output: 20 } },
    'cached above the input': { sent: counts({ ...usageCounts, cached: 400 }), charged: tooMuchCached },
    'beyond the model': {
      sent: counts({ input: 40, output: 1e9 }),
      charged: { input: 40, cacheRead: 0, output: 1000 },
    },
    'beyond the context': { sent: counts({ input: 1e9, output: 20, cached: 5e8 }), charged: { output: 20 } },
    'beyond counting': { sent: counts({ input: 2 ** 40, output: 2 ** 40 }), charged: {} },
    growing: { sent: counts(usageCounts), before: counts({ input: 40, output: 1 }), charged: right },
  };
}

/** The names of all usages. */
export const usageNames = [
  'right',
  'missing',
  'null',
  'zeros',
  'negative',
  'strings',
  'fractions',
  'not an object',
  'only the input',
  'only the output',
  'cached above the input',
  'beyond the model',
  'beyond the context',
  'beyond counting',
  'growing',
] as const;
/** The name of a usage. */
export type UsageName = (typeof usageNames)[number];

/** Tokens that are charged as reported; absent ones are estimated. */
export interface ChargedUsage {
  readonly input?: number;
  readonly cacheRead?: number;
  readonly output?: number;
}

/** Returns an upstream's behaviour: a complete answer with the named usage. */
export function answerWith(wire: Wire, name: UsageName): Behaviour {
  const given = listUsages(wire)[name];
  const { begun, texts, call, finish, end, withoutUsage } = wire;
  // Counts while the answer runs are sent only if the protocol sends usage separately from the finish reason.
  const before = given.before === undefined || finish === undefined ? '' : wire.usage(given.before);
  const after = given.sent === undefined ? withoutUsage : wire.usage(given.sent);
  const output = texts.join('') + call.map(({ frame }) => frame).join('');
  const text = begun + before + output + (finish ?? '') + after + end;
  return socket => void socket.write(Buffer.concat([streamed(text), Buffer.from(lastChunk)]));
}

/** Returns an upstream's behaviour: it writes what comes before the fault, then causes it. */
export function failWith(wire: Wire, faultName: FaultName, momentName: MomentName): Behaviour {
  const fault: Fault = faults[faultName];
  const { sent }: Moment = listMoments(wire)[momentName];
  return async socket => {
    if (sent !== undefined) {
      socket.write(sent);
      // The gateway must read what was written before a reset discards it.
      await sleep(50);
    }
    await fault.strike?.(socket, wire);
  };
}
