import { GatewayError } from '../../errors/gateway-error.ts';
import type { ResponseHead } from '../../gen/tollgate/v1/response_pb.ts';
import { defined } from '../../lib/defined.ts';
import type { Documents } from '../../store/documents.ts';
import { type RequestedResponse, ownInput } from './requested-response.ts';
import type { Conversation, Conversations } from './conversations.ts';
import { encodeBody, type BodyFacts, type StoredState } from './stored-response.ts';

/** The dependencies of `storeResponse`. */
export interface WriterDependencies {
  readonly documents: Documents;
  readonly conversations: Conversations;
  /** How long a response is stored. */
  readonly lifetimeMs: number;
}

/**
 * Stores a response, together with the earlier items that no stored response contains: all of them if the response that it continues is not stored
 * or no longer exists, else none. Returns these items. Throws `conflict` if a response with this id exists, `overloaded` if the store can't be written.
 */
export async function storeResponse(
  { documents, conversations, lifetimeMs }: WriterDependencies,
  requested: RequestedResponse,
  head: ResponseHead,
  { state, ...facts }: { state: StoredState } & Partial<BodyFacts>,
): Promise<Conversation['before']> {
  const { credential, conversation } = requested;
  const { id, input } = ownInput(requested);
  const createdAtMs = Number(head.createdAtMs);
  const finished = state !== 'running';
  const put = async (parentId: string | undefined, inherited: Conversation['before']) => {
    const body = await encodeBody({ head, input, inherited, ...facts });
    if (finished) {
      const { output = [] } = facts.answer ?? {};
      conversations.remember(id, conversation, { input, output, bodyBytes: body.length });
    }
    const owner = { accountId: credential.accountId, apiKeyId: credential.keyId };
    const times = { createdAtMs, endsAtMs: createdAtMs + lifetimeMs };
    const document = { kind: 'response', id, ...owner, state, finished, ...times, body, handsOver: true } as const;
    return documents.put({ ...document, ...defined({ parentId }) });
  };
  const { parentId, before } = conversation;
  const inherited = parentId === undefined ? before : [];
  const outcome = await put(parentId, inherited);
  if (outcome.kind === 'exists') throw new GatewayError('conflict', `The response ${id} already exists.`);
  if (outcome.kind === 'stored') return inherited;
  // The outcome is `no_parent`: the continued response no longer exists.
  await put(undefined, before);
  return before;
}
