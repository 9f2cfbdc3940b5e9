import { Worker } from 'node:worker_threads';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Runtime, Timer } from '../lib/runtime.ts';
import type { ParsedText } from './json-text.ts';

/** The maximum resources to parse one body. */
export interface ParserLimits {
  readonly memoryBytesMax: number;
  readonly timeMs: number;
}

/** Called with the parsed text and its bytes, which may have moved in memory, or with why it can't be parsed. */
export type ParseReceiver = (parsed: (ParsedText & { readonly raw: Buffer }) | GatewayError) => void;

interface ParseCall {
  readonly raw: Buffer;
  readonly receive: ParseReceiver;
}

/**
 * Parses large bodies on a thread of its own, so that none of them blocks other answers. A body that takes too much
 * time or memory is refused and the thread is replaced. The thread starts with the first large body.
 */
export class JsonParser {
  readonly #limits: ParserLimits;
  readonly #timer: Timer;
  readonly #waiting: ParseCall[] = [];
  #worker: Worker | undefined;
  #current: ParseCall | undefined;

  constructor(limits: ParserLimits, runtime: Runtime) {
    this.#limits = limits;
    this.#timer = runtime.after(0, () => this.#fail());
    this.#timer.cancel();
  }

  /** Parses bytes, which must not be used until `receive` is called. */
  parse(raw: Buffer, receive: ParseReceiver): void {
    this.#waiting.push({ raw, receive });
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
    const { buffer, byteOffset, length } = call.raw;
    // Without a copy, unless other bytes share the memory.
    const ownsMemory = buffer instanceof ArrayBuffer && byteOffset === 0 && length === buffer.byteLength;
    const bytes = new Uint8Array(buffer, byteOffset, length);
    this.#worker.postMessage(ownsMemory ? bytes : bytes.slice(), ownsMemory ? [buffer] : []);
    this.#timer.restart(this.#limits.timeMs);
  }

  #start(): Worker {
    const worker = new Worker(new URL('./json-worker.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: Math.ceil(this.#limits.memoryBytesMax / 1024 ** 2) },
    });
    worker.unref();
    worker.on('message', ([parsed, bytes]: [ParsedText, Uint8Array]) => {
      const call = this.#current;
      this.#next();
      call?.receive({ ...parsed, raw: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length) });
    });
    worker.on('error', () => {
      if (this.#worker === worker) this.#fail();
    });
    return worker;
  }

  /** The thread ended, or has to: refuses the body that it had. */
  #fail(): void {
    const worker = this.#worker;
    const call = this.#current;
    this.#worker = undefined;
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
