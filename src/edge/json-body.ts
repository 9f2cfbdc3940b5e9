import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { rememberBody } from '../codecs/sent-body.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { ArrivingBytes } from './arriving-bytes.ts';
import { type Call, readComparedPath } from './call.ts';
import { ClientGone, whenAnswered } from './client-watch.ts';
import { decodeBody, findEncodingProblem, undecodable } from './decoded-body.ts';
import type { Edge } from './edge.ts';
import { BoundsScan, type JsonBounds } from './json-bounds.ts';
import type { JsonParser, LargeText } from './json-parser.ts';
import { type BoundedText, parseWithin } from './json-text.ts';

/** A JSON body. */
export interface JsonBody {
  /** The parsed value: any JSON. */
  readonly value: unknown;
  /** The bytes it was parsed from. */
  readonly raw: Buffer;
  /** The hash by which repeated requests are compared, if the parser's thread has computed it; see `ComparedBody`. */
  readonly fingerprint?: string | undefined;
}

/** The request whose body is read, and its maximums. */
export interface BodyOptions {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly bytesMax: number;
  /** The call that the body belongs to. Its memory counts for the call's account. */
  readonly call: Call;
  /** The bounds of its content; absent means the usual ones. */
  readonly bounds?: JsonBounds;
  /** The path by which repeated requests are compared; absent if the request has no `Idempotency-Key`. */
  readonly comparedPath?: string | undefined;
}

/** Returns how the body of a request that generates, draws or counts tokens is read. */
export function generationBodyOptions(edge: Edge, request: FastifyRequest, reply: FastifyReply): BodyOptions {
  const { raw, call } = request;
  const { bodyBytesMax: bytesMax } = edge.options;
  return { request: raw, response: reply.raw, bytesMax, call, comparedPath: readComparedPath(request) };
}

/** The deepest JSON that is accepted: recursive code would overflow its stack on deeper values. */
const edgeDepthMax = 512;
/** Bodies smaller than this are not scanned, because they can't exceed any bound. */
const unscannedBytes = 1024;
/** Bodies larger than this are parsed on a separate thread, and count towards the memory of all bodies. */
const largeBytes = 1024 ** 2;
/** Bytes that are copied in one turn of the event loop: about a millisecond. */
const copyBytes = 4 * 1024 ** 2;
const jsonType = /^application\/(?:json|[\w.!#$&^-]+\+json)$/i;
const charsetParameter = /;\s*charset\s*=\s*"?([^\s";]+)"?/i;
const boundsTip =
  'Send fewer entries, or ask the operator to raise `limits.list_entries`, `limits.body_values` or `limits.body_depth`.';
const acceptedCharsets = new Set(['utf-8', 'utf8', 'us-ascii', 'ascii']);

/**
 * Reads a JSON body, and calls `receive` with it or with an error: `invalid_request` (another content type, an unknown content encoding, empty, not
 * JSON, or beyond a bound), `body_too_large`, `overloaded` (bodies take too much memory now) or `ClientGone`. If the headers already show
 * that the body must be refused, it is not read, and `receive` is called at once. Bounds are checked as bytes arrive, so that a refused body
 * is not kept.
 */
export function receiveJson(edge: Edge, options: BodyOptions, receive: (body: JsonBody | Error) => void): void {
  const { request, response, bytesMax } = options;
  const refusal = findRefusal(request.headers, bytesMax);
  if (refusal !== undefined) return receive(refusal);
  // The client waits for this before it sends the body; a refusal before this point saves the upload.
  if (request.headers.expect !== undefined) response.writeContinue();
  const { bytes, judge: judgeRatio, stop } = decodeBody(request);
  const length = bytes === request ? Number(request.headers['content-length'] ?? NaN) : NaN;
  const expected = length > 0 ? length : undefined;
  const memory = new BodyMemory(edge, options, Math.min(expected ?? Infinity, bytesMax));
  const scan =
    expected !== undefined && expected <= unscannedBytes
      ? undefined
      : new BoundsScan(options.bounds ?? edge.options.bounds);
  const arriving = new ArrivingBytes({ smallMax: largeBytes, expected });
  let size = 0;
  let isOver = false;
  const refuse = (error: Error): void => {
    isOver = true;
    arriving.drop();
    memory.giveBack();
    receive(error);
  };
  const judge = (chunk: Buffer): GatewayError | undefined => {
    if (size > bytesMax) return tooLarge(bytesMax);
    const exceeded = scan?.push(chunk);
    return exceeded === undefined ? (judgeRatio(size) ?? memory.reach(size)) : boundsError(exceeded);
  };
  bytes.on('data', (chunk: Buffer) => {
    if (isOver) return;
    size += chunk.length;
    const problem = judge(chunk);
    if (problem === undefined) return arriving.push(chunk);
    stop();
    refuse(problem);
  });
  bytes.on('end', () => {
    if (isOver) return;
    isOver = true;
    parseBody(edge.parser, { chunks: arriving.take(), size, comparedPath: options.comparedPath }, receive);
  });
  if (bytes !== request) {
    bytes.on('error', () => {
      if (isOver) return;
      stop();
      refuse(undecodable());
    });
  }
  // Without a listener for errors, this is the only sign of an aborted request. What is still being decoded comes after it.
  request.on('close', () => {
    if (isOver || (bytes !== request && request.complete)) return;
    stop();
    refuse(new ClientGone());
  });
}

/** Reads a request's JSON body. Rejects with the errors of `receiveJson`. */
export function readJsonBody(edge: Edge, options: BodyOptions): Promise<JsonBody> {
  return new Promise<JsonBody>((resolve, reject) => {
    receiveJson(edge, options, body => {
      if (body instanceof Error) reject(body);
      else resolve(body);
    });
  });
}

/** The memory that a large body takes while it is read and answered. */
class BodyMemory {
  readonly #edge: Edge;
  readonly #options: BodyOptions;
  readonly #most: number;
  readonly #owner: bigint;
  #taken = 0;

  /** `most`: the most bytes that the body can have. */
  constructor(edge: Edge, options: BodyOptions, most: number) {
    this.#edge = edge;
    this.#options = options;
    this.#most = most;
    this.#owner = options.call.credential?.accountId ?? 0n;
  }

  /** The bytes of memory that are reserved. */
  get taken(): number {
    return this.#taken;
  }

  /** Reserves memory for the bytes that have arrived, and for as many again. Returns an error if there is not enough left. */
  reach(size: number): GatewayError | undefined {
    if (size <= this.#taken || size <= largeBytes) return undefined;
    const { call, response } = this.#options;
    const more = Math.min(2 * size, this.#most) - this.#taken;
    const outcome = this.#edge.options.memory.take(this.#owner, more);
    if (outcome !== 'taken') return bodiesFull(outcome);
    if (this.#taken === 0) {
      call.body = this;
      whenAnswered(response, () => this.giveBack());
    }
    this.#taken += more;
    return undefined;
  }

  /** Gives the memory back, because the request has ended or its bytes were dropped. */
  giveBack(): void {
    this.#edge.options.memory.give(this.#owner, this.#taken);
    this.#taken = 0;
  }
}

/** Returns the error for a body for which there is not enough memory now. */
export function bodiesFull(outcome: 'owner_full' | 'full'): GatewayError {
  const message =
    outcome === 'full'
      ? 'Too many large requests are being answered: try again.'
      : 'Too many large requests of this account are being answered: wait for one of them.';
  return new GatewayError('overloaded', message);
}

/** Returns the error if the headers show that the body must be refused; else undefined. */
function findRefusal(headers: IncomingHttpHeaders, bytesMax: number): GatewayError | undefined {
  const length = Number(headers['content-length'] ?? 0);
  if (headers['transfer-encoding'] === undefined && length === 0) return emptyBody();
  const { 'content-type': type = '' } = headers;
  if (type !== 'application/json') {
    const problem = findTypeProblem(type);
    if (problem !== undefined) return new GatewayError('invalid_request', problem);
  }
  return findEncodingProblem(headers['content-encoding']) ?? (length > bytesMax ? tooLarge(bytesMax) : undefined);
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

/** Returns the error for a body that is larger than `bytesMax`. */
export function tooLarge(bytesMax: number): GatewayError {
  return new GatewayError('body_too_large', `The body is larger than ${bytesMax} bytes.`);
}

/** Returns the error for a body that exceeds a bound. */
function boundsError(problem: string): GatewayError {
  return new GatewayError('invalid_request', `The body ${problem}.`, { tip: boundsTip });
}

/**
 * Parses JSON that is no body of this edge's requests: a body that an edge in another process has received, or a line of a file. `bounds` absent:
 * they were checked, except for the depth. Rejects with `invalid_request`.
 */
export async function parseBytes(
  parser: JsonParser,
  body: Uint8Array,
  bounds: JsonBounds = { depthMax: edgeDepthMax, valuesMax: Infinity, entriesMax: Infinity },
): Promise<JsonBody> {
  const chunks = [body.length > largeBytes ? await copyInTurns(body) : toBuffer(body)];
  return new Promise((resolve, reject) => {
    parseBody(parser, { chunks, size: body.length, bounds }, parsed => {
      if (parsed instanceof Error) reject(parsed);
      else resolve(parsed);
    });
  });
}

function toBuffer({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length);
}

/** Returns a copy of bytes that can move to the thread. */
async function copyInTurns(body: Uint8Array): Promise<Buffer> {
  const copy = Buffer.allocUnsafeSlow(body.length);
  for (let at = 0; at < body.length; at += copyBytes) {
    if (at > 0) await new Promise(setImmediate);
    copy.set(body.subarray(at, at + copyBytes), at);
  }
  return copy;
}

/** Checks the bounds of a body and parses it, and calls `receive` with the body or with `invalid_request`. The caller must not use the chunks afterwards. */
export function parseBounded(
  edge: Edge,
  { chunks, size }: { readonly chunks: readonly Buffer[]; readonly size: number },
  receive: (body: JsonBody | Error) => void,
): void {
  const { bounds } = edge.options;
  parseBody(edge.parser, { chunks, size, ...(size <= unscannedBytes ? {} : { bounds }) }, receive);
}

/** A body that has arrived. */
interface ArrivedBody {
  readonly chunks: readonly Buffer[];
  readonly size: number;
  /** The bounds to check; absent if they were checked. */
  readonly bounds?: JsonBounds;
  /** See `BodyOptions`. */
  readonly comparedPath?: string | undefined;
}

/** Parses a body: at once, or on the parser's thread if it is large. */
function parseBody(parser: JsonParser, body: ArrivedBody, receive: (body: JsonBody | Error) => void): void {
  const { chunks, size, bounds } = body;
  if (size === 0) return receive(emptyBody());
  if (size > largeBytes) {
    return parser.parse(body, parsed => receive(parsed instanceof Error ? parsed : toLargeBody(parsed)));
  }
  const [first] = chunks;
  const raw = first !== undefined && chunks.length === 1 ? first : Buffer.concat(chunks, size);
  receive(toBody(parseWithin(raw, bounds), raw));
}

/** Remembers the parsed body, so that it is not parsed again when it is sent to an upstream. */
function toLargeBody(parsed: LargeText): JsonBody | GatewayError {
  const { raw, fingerprint, exact } = parsed;
  if ('value' in parsed) rememberBody(raw, exact ?? parsed.value, exact !== undefined);
  return toBody(parsed, raw, fingerprint);
}

function toBody(parsed: BoundedText, raw: Buffer, fingerprint?: string): JsonBody | GatewayError {
  if ('exceeded' in parsed) return boundsError(parsed.exceeded);
  if ('problem' in parsed) return new GatewayError('invalid_request', parsed.problem);
  return { value: parsed.value, raw, fingerprint };
}
