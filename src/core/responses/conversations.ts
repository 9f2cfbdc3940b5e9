import { GatewayError } from '../../errors/gateway-error.ts';
import { type Item, ItemStatus } from '../../gen/tollgate/v1/content_pb.ts';
import type { StoredTurn } from '../../gen/tollgate/v1/response_pb.ts';
import { parseItemId } from '../../generation/response-ids.ts';
import { renumberTurns } from '../../generation/turns.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { ContentRoom, Documents, StoredDocument } from '../../store/documents.ts';
import { withCallSignatures } from './call-signatures.ts';
import { withDistinctIds } from './distinct-ids.ts';
import { RecentConversations, type RememberedConversation } from './recent.ts';
import type { Sealing } from './sealing.ts';
import type { SessionName, Sessions } from './sessions.ts';
import { decodeTurn } from './stored-response.ts';

/** How long decoding the turns of a long conversation may block the event loop. */
const sliceMs = 4;

/** A conversation that a request continues. */
export interface Conversation {
  /** The earlier items, oldest first, with the ids that the client knows. */
  readonly before: readonly Item[];
  /** The request's items, with references replaced by the items that they refer to. */
  readonly input: readonly Item[];
  /** The stored response that is continued; absent if none is, or if it was not stored. */
  readonly parentId?: string;
  /** The total size of the documents' bodies of the stored earlier turns. */
  readonly bodyBytes: number;
  /** About how many bytes `before` has, wherever it comes from. */
  readonly beforeBytes: number;
}

/** The fields of a request about the conversation that it continues. */
export interface Continuation {
  readonly accountId: number;
  readonly previousResponseId: string | undefined;
  readonly session: SessionName | undefined;
  readonly items: readonly Item[];
  /** The memory for what is read. */
  readonly room: ContentRoom;
}

/** Finds the conversations that requests continue, from stored responses and from responses of sessions. */
export class Conversations {
  readonly #documents: Documents;
  readonly #sessions: Sessions;
  readonly #runtime: Pick<Runtime, 'monotonicMs'>;
  readonly #recent = new RecentConversations();

  constructor(documents: Documents, sessions: Sessions, runtime: Pick<Runtime, 'monotonicMs'>) {
    this.#documents = documents;
    this.#sessions = sessions;
    this.#runtime = runtime;
  }

  /**
   * Returns the requested conversation. Throws `previous_response_not_found` if the response does not exist or still runs, and `unsupported_parameter` for references to items that do not exist.
   */
  async find(requested: Continuation): Promise<Conversation> {
    const { previousResponseId: previous, session, accountId, room } = requested;
    if (previous === undefined) return this.continueFrom({ items: [], bytes: 0 }, requested);
    const kept = this.#sessions.find(session, previous);
    if (kept !== undefined) {
      const { items: before, wholeBytes: beforeBytes } = kept;
      // The session may forget them while they are still needed.
      await room.reserve(beforeBytes);
      return { before, beforeBytes, bodyBytes: 0, input: await this.#resolve(requested, before) };
    }
    const found = await this.#upTo(previous, accountId, room);
    if (found === undefined) throw notFound(previous);
    const { items: before, bodyBytes } = found;
    const input = await this.#resolve(requested, before);
    return { before, beforeBytes: bodyBytes, bodyBytes, input, parentId: previous };
  }

  /**
   * Returns the conversation that continues from items of a stored conversation, not of responses. Throws `unsupported_parameter` for references to items that do not exist.
   */
  async continueFrom(
    { items: before, bytes: beforeBytes }: { readonly items: readonly Item[]; readonly bytes: number },
    requested: Omit<Continuation, 'previousResponseId'>,
  ): Promise<Conversation> {
    const input = await this.#resolve({ ...requested, previousResponseId: undefined }, before);
    return { before, beforeBytes, bodyBytes: 0, input };
  }

  /** Caches a conversation with a turn that was just stored, because the next request probably continues it. */
  remember(responseId: string, { before, bodyBytes, parentId }: Conversation, turn: StoredItems): void {
    const items = [...before, ...turn.input, ...turn.output];
    this.#recent.keep(responseId, { items, bodyBytes: bodyBytes + turn.bodyBytes }, parentId);
  }

  /**
   * Returns all input items of a stored response, including those of earlier turns but not its output, each with an id; undefined if the response does not exist.
   */
  async findInput(responseId: string, accountId: number, room: ContentRoom): Promise<Item[] | undefined> {
    const chain = await this.#documents.chain({ kind: 'response', id: responseId }, accountId, room);
    if (chain === undefined) return undefined;
    const last = chain.at(-1);
    const taken = new Set<string>();
    return this.#readItems(chain, ({ input, inherited, output }, document) => {
      const distinct = (items: readonly Item[], from: number): Item[] =>
        withDistinctIds(document.id, items, { taken, from });
      const own = [...distinct(inherited, input.length), ...distinct(input, 0)];
      return document === last ? own : [...own, ...distinct(output, 0)];
    });
  }

  async #upTo(responseId: string, accountId: number, room: ContentRoom): Promise<RememberedConversation | undefined> {
    const name = { kind: 'response' as const, id: responseId };
    const remembered = this.#recent.find(responseId);
    if (remembered !== undefined && (await this.#documents.facts(name, accountId)) !== undefined) {
      // It may be forgotten while it is still needed.
      await room.reserve(remembered.bodyBytes);
      return remembered;
    }
    const chain = await this.#documents.chain(name, accountId, room);
    if (chain?.at(-1)?.finished !== true) return undefined;
    // Before their memory is freed.
    const bodyBytes = chain.reduce((sum, { body }) => sum + body.length, 0);
    const items = await this.#readItems(chain, ({ inherited, input, output }) => [...inherited, ...input, ...output]);
    const found = { items, bodyBytes };
    this.#recent.keep(responseId, found);
    return found;
  }

  /** Returns all items of a chain of turns. */
  async #readItems(
    chain: readonly StoredDocument[],
    read: (turn: StoredTurn, document: StoredDocument) => readonly Item[],
  ): Promise<Item[]> {
    const items: Item[] = [];
    let sliceEndsAt = this.#runtime.monotonicMs() + sliceMs;
    for (const document of chain) {
      for (const item of read(await decodeTurn(document), document)) items.push(item);
      if (this.#runtime.monotonicMs() < sliceEndsAt) continue;
      await new Promise(setImmediate);
      sliceEndsAt = this.#runtime.monotonicMs() + sliceMs;
    }
    return items;
  }

  async #resolve(requested: Continuation, before: readonly Item[]): Promise<Item[]> {
    const { items } = requested;
    const resolved: Item[] = [];
    /** The responses whose items are referred to, each read once. */
    const turns = new Map<string, Promise<StoredTurn | undefined>>();
    for (const [index, item] of items.entries()) {
      if (item.content.case !== 'reference') {
        resolved.push(item);
        continue;
      }
      const { id } = item.content.value;
      const named = before.findLast(each => each.id === id) ?? (await this.#findItem(id, requested, turns));
      if (named === undefined) throw unknownReference(id, index);
      resolved.push(named);
    }
    return resolved;
  }

  async #findItem(
    id: string,
    requested: Continuation,
    turns: Map<string, Promise<StoredTurn | undefined>>,
  ): Promise<Item | undefined> {
    const place = parseItemId(id);
    if (place === undefined) return undefined;
    const { responseId } = place;
    const kept = this.#sessions.find(requested.session, responseId);
    if (kept !== undefined) return kept.items.findLast(item => item.id === id);
    const reading = turns.get(responseId) ?? this.#readTurn(responseId, requested);
    turns.set(responseId, reading);
    const items = (await reading)?.[place.side];
    return items?.find(item => item.id === id) ?? items?.[place.index];
  }

  async #readTurn(id: string, { accountId, room }: Continuation): Promise<StoredTurn | undefined> {
    const document = await this.#documents.find({ kind: 'response', id }, room, accountId);
    return document && decodeTurn(document);
  }
}

/** The items of a stored turn. */
export interface StoredItems {
  readonly input: readonly Item[];
  readonly output: readonly Item[];
  /** The size of the body of its document. */
  readonly bodyBytes: number;
}

/**
 * Returns a conversation as an upstream gets it: with decrypted envelopes, without the gateway's ids, and with numbered turns. A tool call that was cut off and has no result is left out, because no upstream accepts incomplete arguments.
 */
export function upstreamItems({ before, input }: Conversation, sealing: Sealing): Item[] {
  const answered = new Set<string>();
  for (const { content } of [...before, ...input])
    if (content.case === 'toolResult') answered.add(content.value.callId);
  const history = before.filter(
    ({ status, content }) =>
      content.case !== 'toolCall' || status !== ItemStatus.INCOMPLETE || answered.has(content.value.callId),
  );
  const items = withCallSignatures([...sealing.open(history), ...sealing.open(input)]);
  return renumberTurns(items.map(item => (parseItemId(item.id) === undefined ? item : { ...item, id: '' })));
}

function notFound(id: string): GatewayError {
  return new GatewayError('previous_response_not_found', `There is no response ${id} to continue.`, {
    param: 'previous_response_id',
  });
}

function unknownReference(id: string, index: number): GatewayError {
  return new GatewayError('unsupported_parameter', `There is no item ${id} to refer to.`, {
    param: `input.${index}.id`,
    tip: 'Refer to items of stored responses of the same account, or send the item itself.',
  });
}
