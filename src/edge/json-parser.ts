import { Worker } from 'node:worker_threads';
import { GatewayError } from '../errors/gateway-error.ts';
import { exactMark } from '../lib/exact-json.ts';
import { ownMemory } from '../lib/own-memory.ts';
import type { Runtime, Timer } from '../lib/runtime.ts';
import { siblingModule } from '../lib/sibling-module.ts';
import { fillPlaces, type MovedText, readTexts, type TextPlace, type TextRange } from './cut-texts.ts';
import type { JsonBounds } from './json-bounds.ts';
import type { BoundedText } from './json-text.ts';

/** The resources that parsing one body may take at most. */
export interface ParserLimits {
  readonly memoryBytesMax: number;
  readonly timeMs: number;
}

/** Called with the parsed text and its bytes, which may be at another place in memory, or with the error why it can't be parsed. */
export type ParseReceiver = (parsed: LargeText | GatewayError) => void;

/** A text that the thread has parsed. */
export type LargeText = BoundedText & HashedBytes;

interface HashedBytes {
  readonly raw: Buffer;
  /** Undefined unless the body has a path to compare. */
  readonly fingerprint: string | undefined;
  /** The result of `parseExact`; undefined if it would be the same value, because parsing lost no precision. */
  readonly exact: unknown;
}

/** A body to parse. */
export interface UnparsedBody {
  /** The bytes of the body, in the pieces in which they arrived. */
  readonly chunks: readonly Buffer[];
  /** The bounds to check first; absent if they were checked. */
  readonly bounds?: JsonBounds;
  /** The path to hash together with the body; absent if no hash is needed. */
  readonly comparedPath?: string | undefined;
}

/** The message to the thread. */
export interface ParseTask {
  readonly chunks: readonly Uint8Array<ArrayBuffer>[];
  readonly bounds: JsonBounds | undefined;
  readonly comparedPath: string | undefined;
}

/**
 * The thread's reply. If parsing lost precision, the thread also sends the result of `parseExact`, once it receives `restRequest`.
 */
export interface ParseReply {
  /** The parsed text; a value without its long texts. */
  readonly parsed: BoundedText;
  /** The bytes of the body in one piece. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The hash of path and body, if there is a path to compare. */
  readonly fingerprint: string | undefined;
  /** The long texts: those that are read from `bytes`, the others, and where they belong in the value. */
  readonly ranges: readonly TextRange[];
  readonly moved: readonly MovedText[];
  readonly places: readonly TextPlace[];
  readonly isLossy: boolean;
}

/** The thread's second reply. */
export interface ParseRest {
  readonly exact: unknown;
  /** Where the long texts belong in `exact`. */
  readonly places: readonly TextPlace[];
}

/** Requests the second reply. The replies are separate, because receiving each value takes a turn of the event loop. */
export const restRequest = 'rest';

interface ParseCall extends UnparsedBody {
  readonly receive: ParseReceiver;
}

/**
 * Parses large bodies on a separate thread, so that they do not block other answers. A body that takes too much
 * time or memory is refused and the thread is replaced. The thread starts with the first large body.
 */
export class JsonParser {
  readonly #limits: ParserLimits;
  readonly #timer: Timer;
  readonly #waiting: ParseCall[] = [];
  #worker: Worker | undefined;
  #current: ParseCall | undefined;
  /** The thread's first reply, while the second is awaited. */
  #partial: ParseReply | undefined;

  constructor(limits: ParserLimits, runtime: Runtime) {
    this.#limits = limits;
    this.#timer = runtime.after(0, () => this.#fail());
    this.#timer.cancel();
  }

  /**
   * Parses a body. The caller must not use its chunks afterwards. `receive` is called in a later turn of the event loop, because receiving
   * a long text from the thread fills one turn.
   */
  parse(body: UnparsedBody, receive: ParseReceiver): void {
    this.#waiting.push({ ...body, receive });
    if (this.#current === undefined) this.#next();
  }

  /** Ends the thread; waiting bodies are refused. */
  close(): void {
    for (const { receive } of this.#waiting.splice(0))
      receive(new GatewayError('overloaded', 'The gateway is stopping.'));
    this.#fail();
  }

  #next(): void {
    const call = this.#waiting.shift();
    this.#current = call;
    if (call === undefined) return this.#timer.cancel();
    this.#worker ??= this.#start();
    const chunks = call.chunks.map(toMovable);
    const task: ParseTask = { chunks, bounds: call.bounds, comparedPath: call.comparedPath };
    this.#worker.postMessage(
      task,
      chunks.map(({ buffer }) => buffer),
    );
    this.#timer.restart(this.#limits.timeMs);
  }

  #start(): Worker {
    const worker = new Worker(siblingModule(import.meta.url, 'json-worker'), {
      workerData: exactMark,
      resourceLimits: { maxOldGenerationSizeMb: Math.ceil(this.#limits.memoryBytesMax / 1024 ** 2) },
    });
    worker.unref();
    worker.on('message', (reply: ParseReply | ParseRest) => {
      if ('exact' in reply) return this.#end(reply);
      this.#partial = reply;
      if (reply.isLossy) setImmediate(() => setImmediate(() => worker.postMessage(restRequest)));
      else this.#end(undefined);
    });
    worker.on('error', () => {
      if (this.#worker === worker) this.#fail();
    });
    return worker;
  }

  /** Ends the current call with both replies of the thread. */
  #end(rest: ParseRest | undefined): void {
    const call = this.#current;
    const partial = this.#partial;
    this.#partial = undefined;
    this.#next();
    if (call === undefined || partial === undefined) return;
    // An immediate still belongs to the turn in which the message came; one that it sets does not.
    const receive = (parsed: LargeText): void => void setImmediate(() => setImmediate(() => call.receive(parsed)));
    void toLargeText(partial, rest).then(receive);
  }

  /** Refuses the current body, because the thread has ended or must be ended. */
  #fail(): void {
    const worker = this.#worker;
    const call = this.#current;
    this.#worker = undefined;
    this.#partial = undefined;
    this.#next();
    void worker?.terminate();
    call?.receive(
      new GatewayError(
        'invalid_request',
        'The body takes too long or too much memory to be parsed: send a smaller one.',
      ),
    );
  }
}

/** Returns a chunk that can move to the thread. One that shares its memory with other bytes is copied, because they would move too. */
function toMovable(chunk: Buffer): Uint8Array<ArrayBuffer> {
  return ownMemory(chunk) ?? new Uint8Array(chunk);
}

/** Puts the long texts into the parsed values. */
async function toLargeText(reply: ParseReply, rest: ParseRest | undefined): Promise<LargeText> {
  const { parsed, bytes, fingerprint, places } = reply;
  const raw = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const texts = await readTexts(raw, reply);
  const exact = rest && fillPlaces(rest.exact, rest.places, texts);
  const whole = 'value' in parsed ? { value: fillPlaces(parsed.value, places, texts) } : parsed;
  return { ...whole, raw, fingerprint, exact };
}
