import { create, type DescMessage, fromBinary, type MessageShape, toBinary } from '@bufbuild/protobuf';
import { isErrorCode } from '../../errors/error-table.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import {
  KeptAnswerSchema,
  KeptDocumentSchema,
  type KeptFailure,
  KeptFailureSchema,
} from '../../gen/tollgate/v1/replay_pb.ts';
import type { Chunk, DocumentName } from '../../store/documents.ts';

/**
 * Converts answers to bytes and back: the messages of one answer, each prefixed with its length, in pieces that are read in order.
 */

/** Messages are joined into pieces of about this size, so that a stream of thousands of messages needs only a few rows. */
const pieceBytes = 262_144;
const lengthBytes = 4;

/** Collects the messages of an answer while it is sent. */
export class MessageLog<Desc extends DescMessage> {
  readonly #desc: Desc;
  readonly #pieces: Uint8Array[] = [];
  #current: Uint8Array[] = [];
  #currentBytes = 0;
  #hasEnded = false;

  constructor(desc: Desc) {
    this.#desc = desc;
  }

  get isEmpty(): boolean {
    return this.#pieces.length === 0 && this.#current.length === 0;
  }

  /** Adds a message; ignored after the end. */
  add(message: MessageShape<Desc>): void {
    if (this.#hasEnded) return;
    const bytes = toBinary(this.#desc, message);
    const framed = Buffer.allocUnsafe(lengthBytes + bytes.length);
    framed.writeUInt32LE(bytes.length);
    framed.set(bytes, lengthBytes);
    this.#current.push(framed);
    this.#currentBytes += framed.length;
    if (this.#currentBytes >= pieceBytes) this.#finishPiece();
  }

  /** Returns all pieces, to be stored; nothing may be added afterwards. */
  end(): Chunk[] {
    this.#finishPiece();
    this.#hasEnded = true;
    return this.#pieces.map((content, seq) => ({ seq, content }));
  }

  #finishPiece(): void {
    if (this.#current.length === 0) return;
    this.#pieces.push(Buffer.concat(this.#current));
    this.#current = [];
    this.#currentBytes = 0;
  }
}

/** Yields the messages of a stored piece. */
export function* decodeMessages<Desc extends DescMessage>(
  desc: Desc,
  piece: Uint8Array,
): Generator<MessageShape<Desc>> {
  const view = new DataView(piece.buffer, piece.byteOffset, piece.length);
  for (let at = 0; at < piece.length;) {
    const from = at + lengthBytes;
    at = from + view.getUint32(at, true);
    yield fromBinary(desc, piece.subarray(from, at));
  }
}

/** When a stored answer is valid. `settled`: once the ledger has a record of its request. `kept`: always. A name: as long as that document exists. */
export type Binding = 'settled' | 'kept' | DocumentName;

/** Facts that are stored with an answer besides its messages. */
export interface AnswerFacts {
  readonly fingerprint: Uint8Array;
  readonly requestId: string;
  readonly binding: Binding;
  /** The error with which the answer broke off; absent: it is complete. */
  readonly failure?: GatewayError;
}

/** Returns the body of a kept answer's document. */
export function answerBody({ fingerprint, requestId, binding, failure }: AnswerFacts): Uint8Array {
  const kept = create(KeptAnswerSchema, { fingerprint, requestId });
  if (binding === 'kept') kept.binding = { case: 'kept', value: true };
  else if (binding !== 'settled') kept.binding = { case: 'document', value: create(KeptDocumentSchema, binding) };
  if (failure !== undefined) {
    const { code, message, facts } = failure;
    kept.failure = create(KeptFailureSchema, { code, message, param: facts.param ?? '' });
  }
  return toBinary(KeptAnswerSchema, kept);
}

/** Returns the error for a repeated request whose first answer broke off. */
export function repeatedFailure({ code, message, param }: KeptFailure, requestId: string): GatewayError {
  const facts = { requestId, ...(param === '' ? {} : { param }) };
  return new GatewayError(isErrorCode(code) ? code : 'internal', message, facts);
}
