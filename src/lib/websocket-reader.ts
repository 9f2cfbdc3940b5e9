import { Utf8Scan } from './utf8-scan.ts';

/** A message of a WebSocket. */
export interface SocketMessage {
  /** The bytes of the message. Each piece of 4 KiB or more, except the last, has its own memory. */
  readonly pieces: readonly Buffer[];
  readonly size: number;
  readonly isBinary: boolean;
}

/** The methods that a reader calls. */
export interface SocketReceiver {
  message(message: SocketMessage): void;
  /** Called with the unchanged bytes of ping, pong and close frames. */
  control(bytes: Buffer): void;
  /** Called if the client has broken a rule of the protocol; no method is called afterwards. `code`: a close code of RFC 6455. */
  failed(code: 1002 | 1007 | 1009, reason: string): void;
}

const opcodes = { continuation: 0, text: 1, binary: 2, close: 8, pong: 10 } as const;
const pieceBytesMax = 64 * 1024;
const pieceBytesMin = 256;
/** Pieces smaller than this share memory, which is cheaper. */
const sharedBytes = 4 * 1024;
/** The longest header: two bytes, a length of 64 bits, a mask. */
const headBytesMax = 14;
/** The longest payload that a control frame may have. */
const controlBytesMax = 125;

/**
 * Reads the frames that a WebSocket client sends (RFC 6455, section 5) as their bytes arrive: each byte is unmasked, checked and stored once. A reader that waited for whole frames would block
 * the event loop for hundreds of milliseconds for a message of 60 MB.
 */
export class WebSocketReader {
  readonly #bytesMax: number;
  readonly #receiver: SocketReceiver;
  readonly #head = Buffer.alloc(headBytesMax);
  /** How many bytes of the header have arrived, and how many it has as far as is known. */
  #headBytes = 0;
  #headBytesWanted = 2;
  /** How many bytes of the frame's payload have not arrived. */
  #left = 0;
  /** How many bytes of the payload have been unmasked. */
  #unmasked = 0;
  /** The message that is arriving. */
  #message: ArrivingMessage | undefined;
  #isOver = false;

  /** `bytesMax`: the largest message; larger ones are refused. */
  constructor(bytesMax: number, receiver: SocketReceiver) {
    this.#bytesMax = bytesMax;
    this.#receiver = receiver;
  }

  /** The number of bytes of the arriving message so far. */
  get arrivingBytes(): number {
    return this.#message?.size ?? 0;
  }

  /** Takes the next bytes of the connection. */
  push(bytes: Buffer): void {
    let at = 0;
    while (at < bytes.length && !this.#isOver) {
      if (this.#headBytes < this.#headBytesWanted) {
        const taken = bytes.copy(this.#head, this.#headBytes, at, at + this.#headBytesWanted - this.#headBytes);
        this.#headBytes += taken;
        at += taken;
        if (this.#headBytes === this.#headBytesWanted) this.#readHead();
      } else {
        const piece = bytes.subarray(at, at + this.#left);
        at += piece.length;
        this.#left -= piece.length;
        this.#takePayload(piece);
      }
    }
  }

  /** Drops the message that is arriving, and ignores all further bytes. */
  end(): void {
    this.#isOver = true;
    this.#message = undefined;
  }

  get #opcode(): number {
    return (this.#head[0] ?? 0) & 0x0f;
  }

  /** Reads the part of the header that has arrived. It may show that the header is longer. */
  #readHead(): void {
    const short = (this.#head[1] ?? 0) & 0x7f;
    if (this.#headBytes === 2) {
      const problem = this.#findProblem(short);
      if (problem !== undefined) return this.#fail(1002, problem);
      this.#headBytesWanted = 6 + (short === 126 ? 2 : short === 127 ? 8 : 0);
      return;
    }
    this.#left = short === 126 ? this.#head.readUInt16BE(2) : short === 127 ? this.#readLongLength() : short;
    this.#unmasked = 0;
    if (this.#opcode >= opcodes.close) {
      this.#receiver.control(Buffer.from(this.#head.subarray(0, this.#headBytes)));
    } else {
      this.#message ??= new ArrivingMessage(this.#opcode === opcodes.binary);
      if (this.#message.size + this.#left > this.#bytesMax) {
        return this.#fail(1009, `The message is larger than ${this.#bytesMax} bytes.`);
      }
    }
    if (this.#left === 0) this.#endFrame();
  }

  #readLongLength(): number {
    return this.#head.readUInt32BE(2) * 2 ** 32 + this.#head.readUInt32BE(6);
  }

  /** Returns what is wrong with the first two bytes of a header; undefined if they are valid. */
  #findProblem(short: number): string | undefined {
    const [first = 0, second = 0] = this.#head;
    const opcode = this.#opcode;
    if ((first & 0x70) !== 0) return 'A reserved bit is set.';
    if ((second & 0x80) === 0) return 'A frame is not masked.';
    if (opcode > opcodes.pong || (opcode > opcodes.binary && opcode < opcodes.close))
      return `The opcode ${opcode} has no meaning.`;
    if (opcode >= opcodes.close) {
      if ((first & 0x80) === 0) return 'A control frame is fragmented.';
      return short > controlBytesMax ? `A control frame is larger than ${controlBytesMax} bytes.` : undefined;
    }
    if (opcode === opcodes.continuation && this.#message === undefined) return 'A frame continues no message.';
    if (opcode !== opcodes.continuation && this.#message !== undefined) return 'A message begins within another.';
    return undefined;
  }

  #takePayload(piece: Buffer): void {
    if (this.#opcode >= opcodes.close) {
      this.#receiver.control(piece);
    } else {
      const mask = this.#head.subarray(this.#headBytes - 4, this.#headBytes);
      const isText = this.#message?.take(piece, { mask, from: this.#unmasked, left: this.#left }) ?? true;
      if (!isText) return this.#fail(1007, 'The message is not valid UTF-8.');
    }
    this.#unmasked += piece.length;
    if (this.#left === 0) this.#endFrame();
  }

  #endFrame(): void {
    this.#headBytes = 0;
    this.#headBytesWanted = 2;
    const opcode = this.#opcode;
    // Everything after the client's close frame is ignored.
    if (opcode === opcodes.close) this.#isOver = true;
    if (opcode >= opcodes.close || ((this.#head[0] ?? 0) & 0x80) === 0) return;
    const message = this.#message?.end();
    this.#message = undefined;
    if (message === undefined) this.#fail(1007, 'The message is not valid UTF-8.');
    else this.#receiver.message(message);
  }

  #fail(code: 1002 | 1007 | 1009, reason: string): void {
    this.end();
    this.#receiver.failed(code, reason);
  }
}

/** How bytes of a frame are masked. `from`: how many of the frame's bytes came before them; `left`: how many come after them. */
interface Masked {
  readonly mask: Buffer;
  readonly from: number;
  readonly left: number;
}

/** Collects the unmasked bytes of a message. */
class ArrivingMessage {
  readonly #isBinary: boolean;
  readonly #scan = new Utf8Scan();
  readonly #pieces: Buffer[] = [];
  #piece: Buffer = Buffer.alloc(0);
  /** How many bytes of the last piece are filled. */
  #filled = 0;
  size = 0;

  constructor(isBinary: boolean) {
    this.#isBinary = isBinary;
  }

  /** Adds bytes of a frame. Returns false if the message is a text and they are not UTF-8. */
  take(bytes: Buffer, { mask, from, left }: Masked): boolean {
    for (let at = 0; at < bytes.length;) {
      if (this.#filled === this.#piece.length) this.#startPiece(bytes.length - at + left);
      const start = this.#filled;
      const count = Math.min(bytes.length - at, this.#piece.length - start);
      for (let index = 0; index < count; index += 1) {
        this.#piece[start + index] = (bytes[at + index] ?? 0) ^ (mask[(from + at + index) & 3] ?? 0);
      }
      at += count;
      this.#filled += count;
      this.size += count;
      if (!this.#isBinary && !this.#scan.push(this.#piece.subarray(start, this.#filled))) return false;
    }
    return true;
  }

  /** Returns the complete message; undefined if it is a text that ends inside a character. */
  end(): SocketMessage | undefined {
    this.#keepPiece();
    return this.#isBinary || this.#scan.isWhole()
      ? { pieces: this.#pieces, size: this.size, isBinary: this.#isBinary }
      : undefined;
  }

  /** Starts a piece with room for `coming` bytes, or for as many as the message already has, so that many small frames give few pieces. */
  #startPiece(coming: number): void {
    this.#keepPiece();
    const wanted = Math.max(coming, Math.min(this.size, pieceBytesMax), this.size === 0 ? 0 : pieceBytesMin);
    const size = Math.min(wanted, pieceBytesMax);
    this.#piece = size < sharedBytes ? Buffer.allocUnsafe(size) : Buffer.allocUnsafeSlow(size);
    this.#filled = 0;
  }

  #keepPiece(): void {
    if (this.#filled > 0) this.#pieces.push(this.#piece.subarray(0, this.#filled));
    this.#filled = 0;
    this.#piece = Buffer.alloc(0);
  }
}
