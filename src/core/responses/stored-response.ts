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

/** How responses are stored as documents: the format of their bodies and chunks, and the meaning of their states. */

/** The state of a stored response. `running`: it has not ended. `restarted`: it was running when the gateway stopped or died. */
export type StoredState = 'running' | 'ended' | 'failed' | 'cancelled' | 'restarted';

/** The errors of stored responses whose own error was not stored. */
const failures: Partial<Record<StoredState, readonly [code: string, message: string]>> = {
  restarted: ['server_restarted', 'The gateway was restarted while the response ran.'],
  failed: ['upstream_error', 'The model’s provider failed.'],
};

/** Returns the request's settings that a response repeats. */
export function toSettings(request: GenerateRequest): GenerateRequest {
  const { source: _, ...settings } = request;
  return { ...settings, items: [] };
}

/** Returns the input items of a response, with an id for each item. */
export function withIds(responseId: string, items: readonly Item[]): Item[] {
  return items.map((item, index) => (item.id === '' ? { ...item, id: inputItemId(responseId, item, index) } : item));
}

/** The output so far, and how it finished if it has. */
export type Answer = Pick<StoredAnswer, 'output' | 'finished' | 'completed' | 'extensions'>;

/** Folds events into an answer. `isOver`: no events follow, so items that have not closed are marked as incomplete. */
export function toAnswer(responseId: string, events: readonly GenerationEvent[], isOver = true): Answer {
  const fold = new ResponseFold(responseId);
  for (const event of events) fold.add(event);
  if (isOver) fold.settle();
  const { items, finished, completed, extensions = [] } = fold.outcome;
  const output = isOver ? items.map(closeItem) : [...items];
  return { output, extensions: [...extensions], ...defined({ finished, completed }) };
}

function closeItem(item: Item): Item {
  const isCut = item.status === ItemStatus.IN_PROGRESS || item.status === ItemStatus.UNSPECIFIED;
  return isCut ? { ...item, status: ItemStatus.INCOMPLETE } : item;
}

/** How a response ended. */
export interface EndFacts {
  readonly state: StoredState;
  /** Why the response failed; absent if it did not fail, or if the reason is unknown. */
  readonly failure?: ResponseFailure;
}

/** Returns the end of a response that failed with this error. */
export function failedWith(thrown: unknown): EndFacts {
  const { code, message } = toGatewayError(thrown);
  return { state: 'failed', failure: { $typeName: 'tollgate.v1.ResponseFailure', code, message } };
}

/** The fields of a document's body. */
export interface BodyFacts {
  readonly head: ResponseHead;
  readonly input: readonly Item[];
  readonly inherited?: readonly Item[];
  readonly answer?: Answer;
  readonly failure?: ResponseFailure | undefined;
}

/** Encodes the body of a document. It yields to the event loop, because an input can have images of megabytes. */
export function encodeBody({ head, input, inherited = [], answer, failure }: BodyFacts): Promise<Uint8Array> {
  const items = { input: [...input], inherited: [...inherited] };
  return toBinaryInTurns(
    StoredResponseSchema,
    create(StoredResponseSchema, { head, ...items, ...answer, ...defined({ failure }) }),
  );
}

/** Decodes the body of a document, except for the input. The body can't be used afterwards. */
export function decodeAnswer(document: StoredDocument): Promise<StoredAnswer> {
  return fromBinaryInTurns(StoredAnswerSchema, document.body, 'freed');
}

/** Decodes only the items of a document's body, which can't be used afterwards, because the settings and tools of a thousand turns need not be decoded to continue a conversation. */
export function decodeTurn(document: StoredDocument): Promise<StoredTurn> {
  return fromBinaryInTurns(StoredTurnSchema, document.body, 'freed');
}

/** Encodes events as a chunk of a document. */
export function encodeChunk(events: readonly GenerationEvent[]): Uint8Array {
  return toBinary(StoredEventsSchema, create(StoredEventsSchema, { events: [...events] }));
}

/** Decodes the events of a chunk. */
export function decodeEvents(chunk: Uint8Array): GenerationEvent[] {
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
