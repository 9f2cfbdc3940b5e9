import { Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip } from 'node:zlib';
import type { DescMessage } from '@bufbuild/protobuf';
import type { UniversalServerRequest } from '@connectrpc/connect/protocol';
import { GatewayError } from '../errors/gateway-error.ts';
import { toConnectError } from './errors.ts';
import { JsonScanner, type MessageScanner, ProtobufScanner } from './message-scanner.ts';

/** The limits of a call's message. */
export interface MessageBounds {
  /** The most bytes, decompressed. */
  readonly bytesMax: number;
  /** The most fields and list entries, known and unknown ones, at all depths together. */
  readonly elementsMax: number;
}

/** Functions that create decompressors, by the name of the encoding. */
const decompressors = new Map([
  ['gzip', () => createGunzip()],
  ['br', () => createBrotliDecompress()],
]);
const encodingHeaders = ['grpc-encoding', 'connect-content-encoding'];
/** How many bytes come before each message in a stream: flags and length. */
const prefixLength = 5;
const compressedFlag = 1;

interface BodyReading extends MessageBounds {
  readonly makeScanner: () => MessageScanner;
  /** Creates a decompressor; undefined: the message is not compressed, or in a way that the handler refuses. */
  readonly decompressor: (() => ReturnType<typeof createGunzip>) | undefined;
}

/**
 * Returns the call with a body that is decompressed and checked against `bounds` piece by piece, because the handler would decode each message as a whole. Reading the body throws if a limit is exceeded.
 */
export function boundedCall(
  call: UniversalServerRequest,
  { input, requestId, ...bounds }: MessageBounds & { readonly input: DescMessage; readonly requestId: string },
): UniversalServerRequest {
  if (!(Symbol.asyncIterator in Object(call.body))) return call;
  const body = call.body as AsyncIterable<Uint8Array>;
  const type = (call.header.get('content-type') ?? '').split(';', 1)[0] ?? '';
  const isJson = /[/+]json$/.test(type);
  const makeScanner = (): MessageScanner =>
    isJson ? new JsonScanner(bounds.elementsMax) : new ProtobufScanner(input, bounds.elementsMax);
  // True if the body is one message, as in Connect's calls with one reply.
  const isWhole = type === 'application/json' || type === 'application/proto';
  const encoding = isWhole
    ? call.header.get('content-encoding')
    : encodingHeaders.map(name => call.header.get(name)).find(name => name !== null);
  const decompressor = decompressors.get(encoding ?? '');
  const reading: BodyReading = { ...bounds, makeScanner, decompressor };
  if (isWhole && decompressor !== undefined) {
    call.header.delete('content-encoding');
    call.header.delete('content-length');
  }
  return { ...call, body: refusing(isWhole ? readWhole(body, reading) : readMessages(body, reading), requestId) };
}

async function* refusing(body: AsyncIterable<Uint8Array>, requestId: string): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } catch (thrown) {
    throw thrown instanceof GatewayError ? toConnectError(thrown, requestId) : thrown;
  }
}

async function* readWhole(body: AsyncIterable<Uint8Array>, reading: BodyReading): AsyncGenerator<Uint8Array> {
  const { decompressor } = reading;
  yield* scanned(decompressor === undefined ? body : decompressed(body, decompressor), reading);
}

/** Yields the bytes of a message as they come, and checks them. */
async function* scanned(
  body: AsyncIterable<Uint8Array>,
  { bytesMax, makeScanner }: Omit<BodyReading, 'decompressor'>,
): AsyncGenerator<Uint8Array> {
  const scanner = makeScanner();
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw tooLarge(bytesMax);
    scanner.push(chunk);
    yield chunk;
  }
}

function tooLarge(bytesMax: number): GatewayError {
  return new GatewayError('body_too_large', `The message is larger than ${bytesMax} bytes.`);
}

async function* decompressed(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  makeDecompressor: () => ReturnType<typeof createGunzip>,
): AsyncGenerator<Uint8Array> {
  const decompressor = makeDecompressor();
  const source = Readable.from(body, { objectMode: false });
  source.on('error', error => decompressor.destroy(error));
  try {
    yield* source.pipe(decompressor) as AsyncIterable<Uint8Array>;
  } catch (thrown) {
    if (thrown instanceof Error && 'code' in thrown && /^(?:Z_|ERR_)/.test(String(thrown.code))) {
      throw new GatewayError('validation_error', 'The message can’t be decompressed.', { cause: thrown });
    }
    throw thrown;
  } finally {
    decompressor.destroy();
    source.destroy();
  }
}

async function* readMessages(body: AsyncIterable<Uint8Array>, reading: BodyReading): AsyncGenerator<Uint8Array> {
  const chunks = new ByteQueue(body);
  try {
    yield* splitMessages(chunks, reading);
  } finally {
    await chunks.close();
  }
}

/** Yields the messages of a stream, each decompressed and with its prefix. */
async function* splitMessages(
  chunks: ByteQueue,
  { decompressor, ...reading }: BodyReading,
): AsyncGenerator<Uint8Array> {
  const { bytesMax, makeScanner } = reading;
  for (;;) {
    const prefix = await chunks.take(prefixLength);
    if (prefix.length < prefixLength) {
      if (prefix.length > 0) yield prefix;
      return;
    }
    const length = prefix.readUInt32BE(1);
    if (length > bytesMax) throw tooLarge(bytesMax);
    if (prefix[0] === compressedFlag && decompressor !== undefined) {
      const parts: Uint8Array[] = [];
      const message = await chunks.take(length);
      for await (const part of scanned(decompressed([message], decompressor), reading)) parts.push(part);
      prefix[0] = 0;
      prefix.writeUInt32BE(
        parts.reduce((sum, part) => sum + part.length, 0),
        1,
      );
      yield prefix;
      yield* parts;
    } else {
      yield prefix;
      const scanner = makeScanner();
      for await (const chunk of chunks.pass(length)) {
        scanner.push(chunk);
        yield chunk;
      }
    }
  }
}

/** Reads a body by numbers of bytes. */
class ByteQueue {
  readonly #source: AsyncIterator<Uint8Array>;
  #rest: Uint8Array = new Uint8Array();

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** Called if no more bytes are needed. */
  async close(): Promise<void> {
    await this.#source.return?.();
  }

  /** Returns the next `count` bytes, or all that are left. */
  async take(count: number): Promise<Buffer> {
    return Buffer.concat(await Array.fromAsync(this.pass(count)));
  }

  /** Yields the next `count` bytes as they come, or all that are left. */
  async *pass(count: number): AsyncGenerator<Uint8Array> {
    for (let left = count; left > 0;) {
      if (this.#rest.length === 0) {
        const next = await this.#source.next();
        if (next.done === true) return;
        this.#rest = next.value;
        continue;
      }
      const taken = this.#rest.subarray(0, left);
      this.#rest = this.#rest.subarray(taken.length);
      left -= taken.length;
      yield taken;
    }
  }
}
