import { isUtf8 } from 'node:buffer';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { GatewayError } from '../errors/gateway-error.ts';
import { ClientGone } from './client-watch.ts';
import { findSyntaxProblem, nestsDeeperThan } from './json-syntax.ts';

/** A JSON body. */
export interface JsonBody {
  /** The parsed value; whatever JSON the client sent. */
  readonly value: unknown;
  /** The bytes it was parsed from. */
  readonly raw: Buffer;
}

/** Deeper JSON would overflow the stack of whatever walks it later. */
const depthMax = 512;
const jsonType = /^application\/(?:json|[\w.!#$&^-]+\+json)$/i;
const charsetParameter = /;\s*charset\s*=\s*"?([^\s";]+)"?/i;
const acceptedCharsets = new Set(['utf-8', 'utf8', 'us-ascii', 'ascii']);

/**
 * Reads the body of a request that says it is JSON, and calls `receive` with its bytes, or with the reason why there are none: `invalid_request` (another content
 * type, an encoding, empty), `body_too_large`, `ClientGone`. What is refused by its headers is not read, and `receive` is called at once.
 */
export function receiveBytes(
  request: IncomingMessage,
  response: ServerResponse,
  bytesMax: number,
  receive: (bytes: Buffer | Error) => void,
): void {
  const { headers } = request;
  const refusal = findRefusal(headers, bytesMax);
  if (refusal !== undefined) return receive(refusal);
  // The client waits for this before it sends anything; up to here it could have been spared the trouble.
  if (headers.expect !== undefined) response.writeContinue();
  let chunks: Buffer[] = [];
  let size = 0;
  let isOver = false;
  const finish = (bytes: Buffer | Error): void => {
    isOver = true;
    chunks = [];
    receive(bytes);
  };
  request.on('data', (chunk: Buffer) => {
    if (isOver) return;
    size += chunk.length;
    chunks.push(chunk);
    if (size <= bytesMax) return;
    request.pause();
    finish(tooLarge(bytesMax));
  });
  request.on('end', () => {
    if (isOver) return;
    const [first] = chunks;
    finish(first !== undefined && chunks.length === 1 ? first : Buffer.concat(chunks));
  });
  // Without a listener for it, an aborted request has no error but this.
  request.on('close', () => {
    if (!isOver) finish(new ClientGone());
  });
}

/** Reads a request's JSON body. Throws what `receiveBytes` and `parseJson` refuse it with. */
export function readJsonBody(request: IncomingMessage, response: ServerResponse, bytesMax: number): Promise<JsonBody> {
  return new Promise<Buffer>((resolve, reject) => {
    receiveBytes(request, response, bytesMax, bytes => {
      if (bytes instanceof Error) reject(bytes);
      else resolve(bytes);
    });
  }).then(parseJson);
}

/** Why a body is refused by its headers; undefined if it is not. */
function findRefusal(headers: IncomingHttpHeaders, bytesMax: number): GatewayError | undefined {
  const length = Number(headers['content-length'] ?? 0);
  if (headers['transfer-encoding'] === undefined && length === 0) return emptyBody();
  const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = headers;
  if (type !== 'application/json') {
    const problem = findTypeProblem(type);
    if (problem !== undefined) return new GatewayError('invalid_request', problem);
  }
  if (encoding.toLowerCase() !== 'identity') {
    return new GatewayError('invalid_request', 'A Content-Encoding is not accepted: send the body as plain JSON.');
  }
  return length > bytesMax ? tooLarge(bytesMax) : undefined;
}

function findTypeProblem(contentType: string): string | undefined {
  const type = (contentType.split(';', 1)[0] ?? '').trim();
  if (!jsonType.test(type)) {
    const found = type === '' ? 'no Content-Type was sent' : 'the Content-Type is another';
    return `The body must be application/json: ${found}.`;
  }
  const charset = charsetParameter.exec(contentType)?.[1] ?? 'utf-8';
  return acceptedCharsets.has(charset.toLowerCase()) ? undefined : 'The body’s charset must be UTF-8.';
}

function emptyBody(): GatewayError {
  return new GatewayError('invalid_request', 'The body is empty: send a JSON object.');
}

/** Returns the refusal of a body that is larger than `bytesMax`. */
export function tooLarge(bytesMax: number): GatewayError {
  return new GatewayError('body_too_large', `The body is larger than ${bytesMax} bytes.`);
}

/** Parses what was received. Throws `invalid_request` where it is no JSON. */
export function parseJson(raw: Buffer): JsonBody {
  if (raw.length === 0) throw emptyBody();
  if (!isUtf8(raw)) throw new GatewayError('invalid_request', 'The body is not valid UTF-8.');
  if (nestsDeeperThan(depthMax, raw)) {
    throw new GatewayError('invalid_request', `The body nests deeper than ${depthMax} levels.`);
  }
  const text = raw.toString('utf8');
  try {
    return { value: JSON.parse(text) as unknown, raw };
  } catch (thrown) {
    const { line, column, expected } = findSyntaxProblem(text);
    const message = `The body is not valid JSON: line ${line}, column ${column}: expected ${expected}.`;
    throw new GatewayError('invalid_request', message, { cause: thrown });
  }
}
