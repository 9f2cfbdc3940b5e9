import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { GatewayError } from '../errors/gateway-error.ts';
import type { FormPart } from '../codecs/images/decode-request.ts';
import { ClientGone } from './client-watch.ts';
import { tooLarge } from './json-body.ts';

/** The maximums of a form. */
export interface FormLimits {
  /** The most bytes of all parts together. */
  readonly bodyBytesMax: number;
  /** The most bytes that are kept of a file. The rest of a larger file is read and dropped, because the file is refused anyway. */
  readonly fileBytesMax: number;
}

const formType = /^multipart\/form-data\s*(?:;|$)/i;

/** Returns whether the request declares its body a form. */
export function isForm(request: FastifyRequest): boolean {
  return formType.test(request.raw.headers['content-type'] ?? '');
}

/**
 * Reads a form: its parts in order, files as bytes. Throws `invalid_request` if it is malformed, `body_too_large`,
 * and `ClientGone`. Needs `@fastify/multipart` in the route's scope.
 */
export async function readForm(request: FastifyRequest, reply: FastifyReply, limits: FormLimits): Promise<FormPart[]> {
  const { raw } = request;
  if (Number(raw.headers['content-length'] ?? 0) > limits.bodyBytesMax) throw tooLarge(limits.bodyBytesMax);
  // The client waits for this before it sends the body; a refusal before this point saves the upload.
  if (raw.headers.expect !== undefined) reply.raw.writeContinue();
  try {
    return await readParts(request, limits);
  } catch (thrown) {
    // Whoever writes the error answer discards the rest of the body.
    raw.unpipe();
    if (thrown instanceof GatewayError) throw thrown;
    if (raw.socket.destroyed) throw new ClientGone();
    const reason = thrown instanceof Error ? `: ${thrown.message}` : '';
    throw new GatewayError('invalid_request', `The form can’t be read${reason}.`, { cause: thrown });
  }
}

/** The number of bytes that are hashed in one turn of the event loop, in about 4 ms. */
const hashedBytes = 4 * 1024 ** 2;

/** Returns bytes by which repeated forms are compared. They depend on the fields and files, but not on the separators, which differ each time. */
export async function comparedBytes(parts: readonly FormPart[]): Promise<Uint8Array> {
  const hash = createHash('sha256');
  for (const { name, value } of parts) {
    const bytes = typeof value === 'string' ? Buffer.from(value) : value;
    hash.update(JSON.stringify([name, typeof value, bytes.length]));
    for (let at = 0; at < bytes.length; at += hashedBytes) {
      if (at > 0) await nextTurn();
      hash.update(bytes.subarray(at, at + hashedBytes));
    }
  }
  return hash.digest();
}

async function readParts(request: FastifyRequest, limits: FormLimits): Promise<FormPart[]> {
  const parts: FormPart[] = [];
  let bytes = 0;
  const count = (length: number): void => {
    bytes += length;
    if (bytes > limits.bodyBytesMax) throw tooLarge(limits.bodyBytesMax);
  };
  for await (const part of request.parts()) {
    if (part.type === 'field') {
      const value = typeof part.value === 'string' ? part.value : '';
      count(Buffer.byteLength(value));
      parts.push({ name: part.fieldname, value });
      continue;
    }
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of part.file as AsyncIterable<Buffer>) {
      count(chunk.length);
      if (size <= limits.fileBytesMax) chunks.push(chunk);
      size += chunk.length;
    }
    parts.push({ name: part.fieldname, value: Buffer.concat(chunks) });
  }
  return parts;
}
