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
import { responseIdOf } from '../../generation/response-ids.ts';
import type { Credential } from '../../ledger/ledger.ts';
import type { RequestStory } from '../../telemetry/request-story.ts';
import type { Generation } from '../generation/generation.ts';
import type { ConversationLock } from '../conversations/stored-conversations.ts';
import type { Conversation } from './conversations.ts';
import { withDistinctIds } from './distinct-ids.ts';
import type { Sealing } from './sealing.ts';
import type { SessionName } from './sessions.ts';
import { toSettings, withIds } from './stored-response.ts';

/** A response that is asked for, before it is admitted. */
export interface AskedResponse {
  readonly credential: Credential;
  readonly sealing: Sealing;
  readonly requestId: string;
  /** With the whole conversation, as an upstream may see it. */
  readonly request: GenerateRequest;
  /** As it was asked, for what the response says of itself. */
  readonly settings: GenerateRequest;
  readonly conversation: Conversation;
  readonly previousResponseId: string | undefined;
  readonly store: boolean;
  readonly background: boolean;
  readonly session: SessionName | undefined;
  /** The stored conversation that it is made in; undefined: none. */
  readonly lock: ConversationLock | undefined;
  readonly story: RequestStory | undefined;
  /** The batch whose item it is; absent: it is none. */
  readonly batchId?: string;
}

/** What a call asks for; of a create, a count or a compaction. */
export type Ask = Partial<
  Pick<CreateResponseRequest, 'request' | 'previousResponseId' | 'conversationId' | 'store' | 'background' | 'session'>
>;

/** Returns what a call asks for, without the conversation. Throws if the fields do not go together. */
export function readAsk({ request, previousResponseId, conversationId, store = true, background = false }: Ask): {
  readonly request: GenerateRequest;
  readonly store: boolean;
  readonly background: boolean;
} {
  if (request === undefined) throw new GatewayError('validation_error', 'request is missing.', { param: 'request' });
  if (background && !store) {
    throw new GatewayError('unsupported_parameter', 'background: a response in the background must be stored.', {
      param: 'background',
      tip: 'Leave `store` out, or do not run the response in the background.',
    });
  }
  if (conversationId !== undefined && previousResponseId !== undefined) {
    throw new GatewayError('invalid_request', 'conversation: can’t be sent together with previous_response_id.', {
      param: 'conversation',
      tip: 'Go on from a response or from a conversation, not from both.',
    });
  }
  return { request, store, background };
}

/** A response's id, and its own input with ids. */
export function ownInput({ requestId, conversation }: AskedResponse): { readonly id: string; readonly input: Item[] } {
  const id = responseIdOf(requestId);
  return { id, input: withIds(id, conversation.input) };
}

/** Returns what an admitted response says of itself. */
export function responseHead(
  asked: AskedResponse,
  { model, createdAtMs }: Pick<Generation, 'model' | 'createdAtMs'>,
): ResponseHead {
  const { previousResponseId, lock, store, background } = asked;
  return {
    $typeName: 'tollgate.v1.ResponseHead',
    id: responseIdOf(asked.requestId),
    model,
    createdAtMs: BigInt(createdAtMs),
    settings: toSettings(asked.settings),
    ...(previousResponseId === undefined ? {} : { previousResponseId }),
    store,
    background,
    ...(lock === undefined ? {} : { conversationId: lock.name.id }),
  };
}

/** Adds what a response has read and said to the conversation that it is made in, if any. `requestId` undefined: it costs nothing. */
export async function addToConversation(
  asked: AskedResponse,
  output: readonly Item[],
  requestId: string | undefined,
): Promise<void> {
  const { lock, conversation } = asked;
  if (lock === undefined) return;
  const { id, input } = ownInput(asked);
  const taken = new Set(conversation.before.map(item => item.id));
  await lock.add([...withDistinctIds(id, input, { taken, from: 0 }), ...output], requestId);
}

/** One step of a response; what is absent is not said. */
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

/** Does what checks a whole conversation. What it throws names the fields of the caller, who wrote only the last part of that. */
export async function withCallerPaths<T>({ conversation }: AskedResponse, work: () => Promise<T>): Promise<T> {
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
