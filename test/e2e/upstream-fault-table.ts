/** What an upstream can do wrong and when, as the bytes that it writes, and what was decided that each of it means. */
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Behaviour, chunk, lastChunk, streamHead, whole } from '../upstreams/raw-upstream.ts';
import { argumentParts, upstreamBytes, words } from './upstream-bytes.ts';

const usage = {
  prompt_tokens: 40,
  completion_tokens: 20,
  total_tokens: 60,
  prompt_tokens_details: { cached_tokens: 10 },
};

const bytes = upstreamBytes();
const { begin: role, texts, opened, parts, finish, end, usage: usageFrame } = bytes;
const output = [role, ...texts, opened, ...parts, bytes.closed].join('');
const half = (text: string): string => text.slice(0, Math.floor(text.length / 2));

/** The same answer, not streamed. */
const json = bytes.json(usage);

/** What the whole answer says. */
export const wholeAnswer = {
  text: words.join(''),
  arguments: argumentParts.join(''),
  toolName: 'get_weather',
  finish: 'tool_calls',
  outputText: words.join('') + 'get_weather' + argumentParts.join(''),
} as const;

/** How far an answer has come. */
export type Stage =
  /** Not one event of it. */
  | 'nothing'
  /** An event without output: the client's stream has begun. */
  | 'begun'
  /** Some output. */
  | 'output'
  /** The model's own finish; only usage or the formal end may be missing. */
  | 'finished';

/** When a fault strikes. */
export interface Moment {
  readonly stage: Stage;
  /** What was sent before it, head included; absent: nothing. */
  readonly sent?: Buffer;
  /** The output that could be read of it. */
  readonly delivered: string;
  /** Whether the usage had come. */
  readonly usage?: true;
  /** It can't be where the protocol tells the finish together with the usage. */
  readonly needsFinish?: true;
}

const streamed = (text: string): Buffer =>
  Buffer.concat([Buffer.from(streamHead), ...(text === '' ? [] : [chunk(text)])]);

/** Every moment. */
export const moments = {
  'before the head': { stage: 'nothing', delivered: '' },
  'in the head': { stage: 'nothing', sent: Buffer.from(half(streamHead)), delivered: '' },
  'after the head': { stage: 'nothing', sent: streamed(''), delivered: '' },
  'in the first event': { stage: 'nothing', sent: streamed(half(role)), delivered: '' },
  'after the role': { stage: 'begun', sent: streamed(role), delivered: '' },
  'in a text event': {
    stage: 'output',
    sent: streamed(role + texts.slice(0, 2).join('') + half(texts[2] ?? '')),
    delivered: words.slice(0, 2).join(''),
  },
  'in a tool call': {
    stage: 'output',
    sent: streamed(role + texts.join('') + opened + parts.slice(0, 1).join('') + half(parts[1] ?? '')),
    delivered: `${words.join('')}get_weather${argumentParts[0]}`,
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
    sent: streamed(output + (finish ?? '') + usageFrame(usage)),
    delivered: wholeAnswer.outputText,
    usage: true,
  },
  'in a JSON answer': {
    stage: 'nothing',
    sent: Buffer.concat([
      Buffer.from('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n'),
      chunk(half(json)),
    ]),
    delivered: '',
  },
} as const satisfies Record<string, Moment>;
/** A moment's name. */
export type MomentName = keyof typeof moments;

/** What a fault is to the client: an error of the upstream, its silence, an error that it reports, or what a status means. */
export type Meaning = 'error' | 'timeout' | 'reported' | 'rejected' | 'busy';

/** A fault. */
export interface Fault {
  readonly meaning: Meaning;
  /** Does it on a connection on which the moment's bytes were written; absent: the server is not there at all. */
  readonly strike?: (socket: Socket) => unknown;
  /** A moment at which nothing is wrong yet: it is noticed by the time limit alone. */
  readonly unnoticed?: MomentName;
  /** The moments at which it can be; the others are not applicable, for the reason beside it. */
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
  (error: object) =>
  (socket: Socket): unknown =>
    socket.write(chunk(bytes.errorEvent(error)));

/** A head that comes byte by byte, slower than anybody waits. */
async function dripHead(socket: Socket): Promise<void> {
  for (const byte of streamHead) {
    if (socket.destroyed) return;
    socket.write(byte);
    await sleep(100);
  }
}

/** Every fault. */
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
    strike: errorEvent({ message: 'out of memory', type: 'server_error', code: null }),
    only: inStream,
  },
  '429 event': {
    meaning: 'reported',
    strike: errorEvent({ message: 'slow down', type: 'rate_limit_error', code: 429 }),
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
/** A fault's name. */
export type FaultName = keyof typeof faults;

/** Usage as upstreams get it wrong; undefined: none is sent. What is charged of it, where it is not the gateway's own estimate. */
export const usages = {
  right: { sent: usage, charged: { input: 30, cacheRead: 10, output: 20 } },
  missing: { sent: undefined, charged: {} },
  null: { sent: null, charged: {} },
  zeros: { sent: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }, charged: {} },
  negative: { sent: { prompt_tokens: -40, completion_tokens: -20, total_tokens: -60 }, charged: {} },
  strings: { sent: { prompt_tokens: '40', completion_tokens: '20', total_tokens: '60' }, charged: {} },
  fractions: { sent: { prompt_tokens: 40.5, completion_tokens: 20.5 }, charged: {} },
  'not an object': { sent: [40, 20], charged: {} },
  'only the input': { sent: { prompt_tokens: 40 }, charged: { input: 40, cacheRead: 0 } },
  'only the output': { sent: { completion_tokens: 20 }, charged: { output: 20 } },
  'cached above the input': {
    sent: { ...usage, prompt_tokens_details: { cached_tokens: 400 } },
    charged: { input: 40, cacheRead: 0, output: 20 },
  },
  'beyond the model': {
    sent: { prompt_tokens: 40, completion_tokens: 1e9 },
    charged: { input: 40, cacheRead: 0, output: 1000 },
  },
  'beyond the context': {
    sent: { prompt_tokens: 1e9, completion_tokens: 20, prompt_tokens_details: { cached_tokens: 5e8 } },
    charged: { output: 20 },
  },
  'beyond counting': { sent: { prompt_tokens: 2 ** 40, completion_tokens: 2 ** 40 }, charged: {} },
  growing: {
    sent: usage,
    before: { prompt_tokens: 40, completion_tokens: 1 },
    charged: { input: 30, cacheRead: 10, output: 20 },
  },
} as const satisfies Record<string, { sent: unknown; before?: unknown; charged: ChargedUsage }>;
/** The name of a usage. */
export type UsageName = keyof typeof usages;

/** Tokens that are charged as reported; what is absent is estimated. */
export interface ChargedUsage {
  readonly input?: number;
  readonly cacheRead?: number;
  readonly output?: number;
}

/** An answer whole but for its usage. */
export function answerWith(name: UsageName): Behaviour {
  const given: { readonly sent: unknown; readonly before?: unknown } = usages[name];
  // Counts that grow are told by protocols that tell them apart from the finish.
  const before = given.before === undefined || finish === undefined ? '' : usageFrame(given.before);
  const after = given.sent === undefined ? bytes.withoutUsage : usageFrame(given.sent);
  return socket =>
    void socket.write(
      Buffer.concat([streamed(before + output + (finish ?? '') + after + end), Buffer.from(lastChunk)]),
    );
}

/** Writes what comes before the fault, then does it. */
export function failWith(faultName: FaultName, momentName: MomentName): Behaviour {
  const fault: Fault = faults[faultName];
  const { sent }: Moment = moments[momentName];
  return async socket => {
    if (sent !== undefined) {
      socket.write(sent);
      // What was written must be read before a reset throws it away.
      await sleep(50);
    }
    await fault.strike?.(socket);
  };
}
