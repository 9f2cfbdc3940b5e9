import {
  outcomeOf,
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

/** Responses of the contract in the words of the codec. */

const statuses: Readonly<Record<Status, ResponseStatus>> = {
  [Status.UNSPECIFIED]: 'in_progress',
  [Status.QUEUED]: 'queued',
  [Status.IN_PROGRESS]: 'in_progress',
  [Status.COMPLETED]: 'completed',
  [Status.INCOMPLETE]: 'incomplete',
  [Status.FAILED]: 'failed',
  [Status.CANCELLED]: 'cancelled',
};

/** What a response says beside its outcome. Throws where the core sent no settings. */
export function factsOf(head: ResponseHead): ResponseFacts {
  const { id, model, createdAtMs, settings, previousResponseId, conversationId, store, background } = head;
  if (settings === undefined) throw new Error('a response without settings');
  const state = { previousResponseId, conversationId, store, background };
  return { id, model, createdAtMs: Number(createdAtMs), request: settings, ...state };
}

/** What became of a response that was asked about. */
export function outcomeOfResponse({
  status,
  output,
  finished,
  completed,
  failure,
  extensions,
}: Response): ResponseOutcome {
  return { status: statuses[status] ?? 'in_progress', items: output, finished, completed, error: failure, extensions };
}

/** What became of a response that was answered at once: in the background it has only begun to wait. */
export function outcomeOfAnswer(head: ResponseHead, events: readonly GenerationEvent[]): ResponseOutcome {
  return events.length === 0 && head.background ? { status: 'queued', items: [] } : outcomeOf(head.id, events);
}

/** Why a stored response failed, as an error. */
export function failureError(failure: ResponseFailure | undefined): GatewayError {
  const { code = 'internal', message = 'The gateway failed.' } = failure ?? {};
  return new GatewayError(isErrorCode(code) ? code : 'internal', message);
}
