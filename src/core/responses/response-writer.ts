import { GatewayError } from '../../errors/gateway-error.ts';
import type { ResponseHead } from '../../gen/tollgate/v1/response_pb.ts';
import type { Documents } from '../../store/documents.ts';
import { type AskedResponse, ownInput } from './asked.ts';
import type { Conversation, Conversations } from './conversations.ts';
import { bodyOf, type BodyFacts, type StoredState } from './stored-response.ts';

/** Writes responses into the store, each once. */
export class ResponseWriter {
  readonly #documents: Documents;
  readonly #conversations: Conversations;
  readonly #lifetimeMs: number;

  constructor(documents: Documents, conversations: Conversations, lifetimeMs: number) {
    this.#documents = documents;
    this.#conversations = conversations;
    this.#lifetimeMs = lifetimeMs;
  }

  /**
   * Stores a response, with all that it goes on from where the store does not have that any more; answers what of that had to be stored with it. Throws
   * `overloaded` where the store can't be written.
   */
  async put(
    asked: AskedResponse,
    head: ResponseHead,
    { state, ...facts }: { state: StoredState } & Partial<BodyFacts>,
  ): Promise<{ readonly inherited: Conversation['before'] }> {
    const { credential, conversation } = asked;
    const { id, input } = ownInput(asked);
    const createdAtMs = Number(head.createdAtMs);
    const put = (parentId: string | undefined, inherited: Conversation['before']) => {
      const body = bodyOf({ head, input, inherited, ...facts });
      if (state !== 'running') {
        const { output = [] } = facts.answer ?? {};
        this.#conversations.remember(id, conversation, { input, output, bodyBytes: body.length });
      }
      return this.#documents.put({
        kind: 'response',
        id,
        accountId: credential.accountId,
        apiKeyId: credential.keyId,
        state,
        finished: state !== 'running',
        createdAtMs,
        endsAtMs: createdAtMs + this.#lifetimeMs,
        body,
        ...(parentId === undefined ? {} : { parentId }),
      });
    };
    const { parentId, before } = conversation;
    const inherited = parentId === undefined ? before : [];
    const outcome = await put(parentId, inherited);
    if (outcome.kind === 'exists') throw new GatewayError('conflict', `There is a response ${id} already.`);
    if (outcome.kind === 'stored') return { inherited };
    await put(undefined, before);
    return { inherited: before };
  }
}
