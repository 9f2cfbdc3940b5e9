import { GatewayError } from '../../errors/gateway-error.ts';
import type { Item } from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerationEvent, LimitState } from '../../gen/tollgate/v1/event_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import type {
  CreateResponseRequest,
  CreateResponseResponse,
  ResponseEnd,
  ResponseHead,
} from '../../gen/tollgate/v1/response_pb.ts';
import { toResponseId } from '../../generation/response-ids.ts';
import type { Credential } from '../../ledger/ledger.ts';
import type { RequestTelemetry } from '../../telemetry/request-telemetry.ts';
import type { Generation } from '../generation/generation.ts';
import type { HeldContent } from '../held-content.ts';
import type { ConversationLock } from '../conversations/stored-conversations.ts';
import type { Conversation } from './conversations.ts';
import { withDistinctIds } from './distinct-ids.ts';
import type { Sealing } from './sealing.ts';
import type { SessionName } from './sessions.ts';
import { toSettings, withIds } from './stored-response.ts';

/** A requested response that is not admitted yet. */
export interface RequestedResponse {
  readonly credential: Credential;
  readonly sealing: Sealing;
  readonly requestId: string;
  /** The request with the whole conversation, as an upstream gets it. */
  readonly request: GenerateRequest;
  /** The settings of the request, which the response repeats. */
  readonly settings: GenerateRequest;
  readonly conversation: Conversation;
  readonly previousResponseId: string | undefined;
  readonly store: boolean;
  readonly background: boolean;
  readonly session: SessionName | undefined;
  /** The lock of the stored conversation that the response is added to; undefined: none. */
  readonly lock: ConversationLock | undefined;
  /** The memory of the conversation, which is needed until the response has ended. */
  readonly room: HeldContent;
  readonly telemetry: RequestTelemetry | undefined;
  /** The id of the batch that the request is an item of; absent: none. */
  readonly batchId?: string;
}

/** The fields of the requests that create a response, count its input or compact a conversation. */
export type ResponseFields = Partial<
  Pick<CreateResponseRequest, 'request' | 'previousResponseId' | 'conversationId' | 'store' | 'background' | 'session'>
>;

/** Reads the fields of such a request, without the conversation. Throws if they contradict each other. */
export function readFields({
  request,
  previousResponseId,
  conversationId,
  store = true,
  background = false,
}: ResponseFields): {
  readonly request: GenerateRequest;
  readonly store: boolean;
  readonly background: boolean;
} {
  if (request === undefined) throw new GatewayError('validation_error', 'request is missing.', { param: 'request' });
  if (background && !store) {
    throw new GatewayError('unsupported_parameter', 'background: a background response must be stored.', {
      param: 'background',
      tip: 'Leave `store` out, or do not run the response in the background.',
    });
  }
  if (conversationId !== undefined && previousResponseId !== undefined) {
    throw new GatewayError('invalid_request', 'conversation: can’t be sent together with previous_response_id.', {
      param: 'conversation',
      tip: 'Continue a response or a conversation, not both.',
    });
  }
  return { request, store, background };
}

/** Returns the id of a response, and its input items (without earlier turns) with ids. */
export function ownInput({ requestId, conversation }: RequestedResponse): {
  readonly id: string;
  readonly input: Item[];
} {
  const id = toResponseId(requestId);
  return { id, input: withIds(id, conversation.input) };
}

/** Returns the head of an admitted response. */
export function responseHead(
  requested: RequestedResponse,
  { model, createdAtMs }: Pick<Generation, 'model' | 'createdAtMs'>,
): ResponseHead {
  const { previousResponseId, lock, store, background } = requested;
  return {
    $typeName: 'tollgate.v1.ResponseHead',
    id: toResponseId(requested.requestId),
    model,
    createdAtMs: BigInt(createdAtMs),
    settings: toSettings(requested.settings),
    ...(previousResponseId === undefined ? {} : { previousResponseId }),
    store,
    background,
    ...(lock === undefined ? {} : { conversationId: lock.name.id }),
  };
}

/**
 * Adds the input and output of a response to its stored conversation, if it has one. `requestId` undefined: the response costs nothing.
 */
export async function addToConversation(
  requested: RequestedResponse,
  output: readonly Item[],
  requestId: string | undefined,
): Promise<void> {
  const { lock, conversation } = requested;
  if (lock === undefined) return;
  const { id, input } = ownInput(requested);
  const taken = new Set(conversation.before.map(item => item.id));
  await lock.add([...withDistinctIds(id, input, { taken, from: 0 }), ...output], requestId);
}

/** Returns a message of a response. Absent fields are not sent. */
export function createMessage(
  events: GenerationEvent[],
  rest: {
    readonly head?: ResponseHead | undefined;
    readonly end?: ResponseEnd | undefined;
    readonly limits?: LimitState[];
  },
): CreateResponseResponse {
  const { head, end, limits = [] } = rest;
  return {
    $typeName: 'tollgate.v1.CreateResponseResponse',
    events,
    limits,
    ...(head === undefined ? {} : { head }),
    ...(end === undefined ? {} : { end }),
  };
}

/**
 * Runs a check of a whole conversation. If it throws, the path in the error is changed to that of the client's request, which has only the last items of the conversation.
 */
export async function withCallerPaths<T>({ conversation }: RequestedResponse, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    throw withOwnPaths(thrown, conversation);
  }
}

function withOwnPaths(thrown: unknown, { before }: Conversation): unknown {
  if (!(thrown instanceof GatewayError) || before.length === 0) return thrown;
  const { param = '', violations = [] } = thrown.facts;
  const shifted = (path: string): string =>
    path.replace(
      /^(input|items)\.(\d+)/,
      (_, name: string, index: string) => `${name}.${Number(index) - before.length}`,
    );
  const own = shifted(param);
  if (own === param) return thrown;
  return new GatewayError(thrown.code, thrown.message.replace(param, own), {
    ...thrown.facts,
    param: own,
    violations: violations.map(violation => ({ ...violation, path: shifted(violation.path.join('.')).split('.') })),
  });
}
