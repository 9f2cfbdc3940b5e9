import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib';
import { GatewayError } from '../errors/gateway-error.ts';

/** How many bytes are decoded in one turn of the event loop. The work itself is done on another thread. */
const options = { chunkSize: 64 * 1024 };
const decoders = {
  gzip: () => createGunzip(options),
  'x-gzip': () => createGunzip(options),
  deflate: () => createInflate(options),
  br: () => createBrotliDecompress(options),
  zstd: () => createZstdDecompress(options),
} as const;
type Encoding = keyof typeof decoders;

/** From this size on, a body must not be larger than `ratioMax` times its encoded form: no real JSON is, and a few bytes could take all memory. */
const checkedBytes = 1024 ** 2;
const ratioMax = 100;

function isEncoding(name: string): name is Encoding {
  return Object.hasOwn(decoders, name);
}

/** Returns the error for a `Content-Encoding` that can't be decoded; undefined: it can, or there is none. */
export function findEncodingProblem(header: string | undefined): GatewayError | undefined {
  const name = readEncoding(header);
  if (name === undefined || isEncoding(name)) return undefined;
  const known = Object.keys(decoders).filter(each => each !== 'x-gzip');
  const message = `The Content-Encoding is not accepted: send plain JSON, or one of ${known.join(', ')}.`;
  return new GatewayError('invalid_request', message);
}

function readEncoding(header = 'identity'): string | undefined {
  const name = header.trim().toLowerCase();
  return name === 'identity' || name === '' ? undefined : name;
}

/** The bytes of a body, decoded. */
export interface DecodedBody {
  /** Emits the decoded bytes, and an error if they can't be decoded. */
  readonly bytes: Readable;
  /** Returns an error if so many bytes have come out of so few that more must not be decoded. `size`: the bytes that have come out. */
  readonly judge: (size: number) => GatewayError | undefined;
  /** Stops decoding, and reading from the client. */
  readonly stop: () => void;
}

/** Returns the decoded body of a request whose `Content-Encoding` has no problem; of one without, the body as it is. */
export function decodeBody(request: IncomingMessage): DecodedBody {
  const name = readEncoding(request.headers['content-encoding']);
  if (name === undefined || !isEncoding(name)) {
    return { bytes: request, judge: () => undefined, stop: () => void request.pause() };
  }
  const decoder = decoders[name]();
  request.pipe(decoder);
  return {
    bytes: decoder,
    judge: size => (size > checkedBytes && size > ratioMax * decoder.bytesWritten ? tooDense() : undefined),
    stop: () => {
      request.unpipe(decoder);
      request.pause();
      decoder.destroy();
    },
  };
}

function tooDense(): GatewayError {
  return new GatewayError(
    'invalid_request',
    `The decoded body is more than ${ratioMax} times as large as it was sent.`,
  );
}

/** Returns the client's error for bytes that can't be decoded. */
export function undecodable(): GatewayError {
  return new GatewayError('invalid_request', 'The body can’t be decoded as its Content-Encoding says.');
}
