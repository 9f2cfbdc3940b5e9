import {
  toOutcome,
  type ResponseFacts,
  type ResponseOutcome,
  type ResponseStatus,
} from '../../codecs/responses/index.ts';
import { isErrorCode } from '../../errors/error-table.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import {
  type Response,
  type ResponseFailure,
  type ResponseHead,
  ResponseStatus as Status,
} from '../../gen/tollgate/v1/response_pb.ts';

/** Converts responses of the contract to the types of the Responses codec. */

const statuses: Readonly<Record<Status, ResponseStatus>> = {
  [Status.UNSPECIFIED]: 'in_progress',
  [Status.QUEUED]: 'queued',
  [Status.IN_PROGRESS]: 'in_progress',
  [Status.COMPLETED]: 'completed',
  [Status.INCOMPLETE]: 'incomplete',
  [Status.FAILED]: 'failed',
  [Status.CANCELLED]: 'cancelled',
};

/** Returns what is known about a response when it begins. Throws if the core sent no settings. */
export function readFacts(head: ResponseHead): ResponseFacts {
  const { id, model, createdAtMs, settings, previousResponseId, conversationId, store, background } = head;
  if (settings === undefined) throw new Error('a response without settings');
  const state = { previousResponseId, conversationId, store, background };
  return { id, model, createdAtMs: Number(createdAtMs), request: settings, ...state };
}

/** Returns the outcome of a stored response. */
export function toResponseOutcome({
  status,
  output,
  finished,
  completed,
  failure,
  extensions,
}: Response): ResponseOutcome {
  return { status: statuses[status] ?? 'in_progress', items: output, finished, completed, error: failure, extensions };
}

/** Returns the outcome of a response that is sent whole, not streamed. A background response without events is `queued`. */
export function toAnswerOutcome(head: ResponseHead, events: readonly GenerationEvent[]): ResponseOutcome {
  return events.length === 0 && head.background ? { status: 'queued', items: [] } : toOutcome(head.id, events);
}

/** Returns the reason why a stored response failed as an error. */
export function failureError(failure: ResponseFailure | undefined): GatewayError {
  const { code = 'internal', message = 'The gateway failed.' } = failure ?? {};
  return new GatewayError(isErrorCode(code) ? code : 'internal', message);
}
