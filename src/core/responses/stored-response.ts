import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { toGatewayError } from '../../errors/gateway-error.ts';
import { type Item, ItemStatus } from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import {
  type ResponseFailure,
  type ResponseHead,
  ResponseStatus,
  StoredEventsSchema,
  type StoredAnswer,
  StoredAnswerSchema,
  StoredResponseSchema,
  type StoredTurn,
  StoredTurnSchema,
} from '../../gen/tollgate/v1/response_pb.ts';
import { incompleteReason, ResponseFold } from '../../generation/response-fold.ts';
import { fromBinaryInTurns, toBinaryInTurns } from '../../generation/large-message.ts';
import { inputItemId } from '../../generation/response-ids.ts';
import { defined } from '../../lib/defined.ts';
import type { StoredDocument } from '../../store/documents.ts';

/** Responses as documents: the format of their bodies and logs, and the meaning of their states. */

/** `running` until it has ended. `restarted`: it ran when the gateway was stopped or died. */
export type StoredState = 'running' | 'ended' | 'failed' | 'cancelled' | 'restarted';

/** Failures of stored responses whose real failure could not be recorded. */
const failures: Partial<Record<StoredState, readonly [code: string, message: string]>> = {
  restarted: ['server_restarted', 'The gateway was restarted while the response ran.'],
  failed: ['upstream_error', 'The model’s provider failed.'],
};

/** Returns the request's settings that a response repeats. */
export function toSettings(request: GenerateRequest): GenerateRequest {
  const { source: _, ...settings } = request;
  return { ...settings, items: [] };
}

/** A response's own input with an id for each item. */
export function withIds(responseId: string, items: readonly Item[]): Item[] {
  return items.map((item, index) => (item.id === '' ? { ...item, id: inputItemId(responseId, item, index) } : item));
}

/** The model's output so far, and its end if it has ended. */
export type Answer = Pick<StoredAnswer, 'output' | 'finished' | 'completed' | 'extensions'>;

/** Folds events into an answer. An item that was cut off is incomplete. `isOver`: no events follow. */
export function toAnswer(responseId: string, events: readonly GenerationEvent[], isOver = true): Answer {
  const fold = new ResponseFold(responseId);
  for (const event of events) fold.add(event);
  if (isOver) fold.settle();
  const { items, finished, completed, extensions = [] } = fold.outcome;
  const output = isOver ? items.map(ended) : [...items];
  return { output, extensions: [...extensions], ...defined({ finished, completed }) };
}

function ended(item: Item): Item {
  const isCut = item.status === ItemStatus.IN_PROGRESS || item.status === ItemStatus.UNSPECIFIED;
  return isCut ? { ...item, status: ItemStatus.INCOMPLETE } : item;
}

/** The end of a response. */
export interface EndFacts {
  readonly state: StoredState;
  /** Why it failed; absent if it did not, or if that is unknown. */
  readonly failure?: ResponseFailure;
}

/** Returns the end of a response that failed with this error. */
export function failedWith(thrown: unknown): EndFacts {
  const { code, message } = toGatewayError(thrown);
  return { state: 'failed', failure: { $typeName: 'tollgate.v1.ResponseFailure', code, message } };
}

/** The parts of a body. */
export interface BodyFacts {
  readonly head: ResponseHead;
  readonly input: readonly Item[];
  readonly inherited?: readonly Item[];
  readonly answer?: Answer;
  readonly failure?: ResponseFailure | undefined;
}

/** Returns the body of a document; in turns of the event loop, because an input can have images of megabytes. */
export function encodeBody({ head, input, inherited = [], answer, failure }: BodyFacts): Promise<Uint8Array> {
  const items = { input: [...input], inherited: [...inherited] };
  return toBinaryInTurns(
    StoredResponseSchema,
    create(StoredResponseSchema, { head, ...items, ...answer, ...defined({ failure }) }),
  );
}

/** Reads all of a body but the input. */
export function readAnswer(document: StoredDocument): Promise<StoredAnswer> {
  return fromBinaryInTurns(StoredAnswerSchema, document.body);
}

/** Reads only what a conversation needs: settings and tools of a thousand turns are not decoded. */
export function readTurn(document: StoredDocument): Promise<StoredTurn> {
  return fromBinaryInTurns(StoredTurnSchema, document.body);
}

/** Events as a chunk of a log. */
export function encodeChunk(events: readonly GenerationEvent[]): Uint8Array {
  return toBinary(StoredEventsSchema, create(StoredEventsSchema, { events: [...events] }));
}

/** The events of a chunk. */
export function eventsIn(chunk: Uint8Array): GenerationEvent[] {
  return fromBinary(StoredEventsSchema, chunk, { readUnknownFields: false }).events;
}

const statuses: Readonly<Record<StoredState, ResponseStatus>> = {
  running: ResponseStatus.IN_PROGRESS,
  ended: ResponseStatus.COMPLETED,
  failed: ResponseStatus.FAILED,
  cancelled: ResponseStatus.CANCELLED,
  restarted: ResponseStatus.FAILED,
};

/** Returns the status of a stored response that is no longer running. */
export function toStatus(state: string, { finished, output }: StoredAnswer): ResponseStatus {
  const isCut = state === 'ended' && finished !== undefined && incompleteReason(finished, output) !== undefined;
  return isCut ? ResponseStatus.INCOMPLETE : statuses[state as StoredState];
}

/** Returns why a stored response failed; undefined if it did not. */
export function readFailure(state: string, { failure }: StoredAnswer): ResponseFailure | undefined {
  const known = failures[state as StoredState];
  if (known === undefined) return undefined;
  return failure ?? { $typeName: 'tollgate.v1.ResponseFailure', code: known[0], message: known[1] };
}
