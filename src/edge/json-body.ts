import { isUtf8 } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { GatewayError } from '../errors/gateway-error.ts';
import { ClientGone } from './client-gone.ts';
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
 * Reads a request's JSON body. Throws `invalid_request` (another content type, an encoding, empty, not UTF-8, malformed, nested too deeply),
 * `body_too_large`, and `ClientGone`. What is refused by its headers is not read.
 */
export async function readJsonBody(
  request: IncomingMessage,
  response: ServerResponse,
  bytesMax: number,
): Promise<JsonBody> {
  const { headers } = request;
  if (headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0) throw emptyBody();
  checkType(headers['content-type'] ?? '');
  const encoding = headers['content-encoding'] ?? 'identity';
  if (encoding.toLowerCase() !== 'identity') {
    throw new GatewayError('invalid_request', 'A Content-Encoding is not accepted: send the body as plain JSON.');
  }
  if (Number(headers['content-length'] ?? 0) > bytesMax) throw tooLarge(bytesMax);
  // The client waits for this before it sends anything; up to here it could have been spared the trouble.
  if (headers.expect !== undefined) response.writeContinue();
  return parseJson(await readBytes(request, bytesMax));
}

function checkType(contentType: string): void {
  const type = (contentType.split(';', 1)[0] ?? '').trim();
  if (!jsonType.test(type)) {
    const found = type === '' ? 'no Content-Type was sent' : 'the Content-Type is another';
    throw new GatewayError('invalid_request', `The body must be application/json: ${found}.`);
  }
  const charset = charsetParameter.exec(contentType)?.[1] ?? 'utf-8';
  if (!acceptedCharsets.has(charset.toLowerCase())) {
    throw new GatewayError('invalid_request', 'The body’s charset must be UTF-8.');
  }
}

function emptyBody(): GatewayError {
  return new GatewayError('invalid_request', 'The body is empty: send a JSON object.');
}

function tooLarge(bytesMax: number): GatewayError {
  return new GatewayError('body_too_large', `The body is larger than ${bytesMax} bytes.`);
}

function readBytes(request: IncomingMessage, bytesMax: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const settle = (): void => {
      request.off('data', take).off('end', finish).off('error', gone).off('close', gone);
    };
    const take = (chunk: Buffer): void => {
      size += chunk.length;
      if (size <= bytesMax) {
        chunks.push(chunk);
        return;
      }
      settle();
      request.pause();
      reject(tooLarge(bytesMax));
    };
    const finish = (): void => {
      settle();
      const [first] = chunks;
      resolve(first !== undefined && chunks.length === 1 ? first : Buffer.concat(chunks));
    };
    const gone = (): void => {
      settle();
      reject(new ClientGone());
    };
    request.on('data', take).on('end', finish).on('error', gone).on('close', gone);
  });
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
