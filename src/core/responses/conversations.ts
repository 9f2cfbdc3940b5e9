import { GatewayError } from '../../errors/gateway-error.ts';
import { type Item, ItemStatus } from '../../gen/tollgate/v1/content_pb.ts';
import { placeOfItem } from '../../generation/response-ids.ts';
import { renumberTurns } from '../../generation/turns.ts';
import type { Documents } from '../../store/documents.ts';
import type { Sealing } from './sealing.ts';
import type { SessionName, Sessions } from './sessions.ts';
import { turnIn } from './stored-response.ts';

/** A conversation that is about to go on. */
export interface Conversation {
  /** What came before, oldest first, with the ids that its client saw. */
  readonly before: readonly Item[];
  /** What is new, with references resolved. */
  readonly input: readonly Item[];
  /** The stored response that it goes on from; absent where it does not, or from one that was not stored. */
  readonly parentId?: string;
}

/** What a conversation is found by. */
export interface Continuation {
  readonly accountId: number;
  readonly previousResponseId: string | undefined;
  readonly session: SessionName | undefined;
  readonly items: readonly Item[];
}

/** Finds what conversations go on from: stored responses and those of sessions. */
export class Conversations {
  readonly #documents: Documents;
  readonly #sessions: Sessions;

  constructor(documents: Documents, sessions: Sessions) {
    this.#documents = documents;
    this.#sessions = sessions;
  }

  /**
   * The conversation that is asked for. Throws `previous_response_not_found`, also where that response still runs, and
   * `unsupported_parameter` for references that name nothing.
   */
  async find(asked: Continuation): Promise<Conversation> {
    const { previousResponseId: previous, session, accountId } = asked;
    if (previous === undefined) return { before: [], input: await this.#resolve(asked, []) };
    const kept = this.#sessions.find(session, previous);
    const before = kept ?? (await this.itemsUpTo(previous, accountId));
    if (before === undefined) throw notFound(previous);
    const input = await this.#resolve(asked, before);
    return { before, input, ...(kept === undefined ? { parentId: previous } : {}) };
  }

  /** All items up to and with a stored response; undefined where it is not there or still runs. `withOutput` false: without its own output. */
  async itemsUpTo(responseId: string, accountId: number, withOutput = true): Promise<Item[] | undefined> {
    const chain = await this.#documents.chain({ kind: 'response', id: responseId }, accountId);
    const last = chain?.at(-1);
    if (chain === undefined || (withOutput && last?.finished === false)) return undefined;
    const items: Item[] = [];
    for (const document of chain) {
      const turn = turnIn(document);
      for (const item of turn.inherited) items.push(item);
      for (const item of turn.input) items.push(item);
      if (withOutput || document !== last) for (const item of turn.output) items.push(item);
    }
    return items;
  }

  async #resolve({ items, accountId, session }: Continuation, before: readonly Item[]): Promise<Item[]> {
    const resolved: Item[] = [];
    for (const [index, item] of items.entries()) {
      if (item.content.case !== 'reference') {
        resolved.push(item);
        continue;
      }
      const { id } = item.content.value;
      const named = before.findLast(each => each.id === id) ?? (await this.#itemOf(id, accountId, session));
      if (named === undefined) throw unknownReference(id, index);
      resolved.push(named);
    }
    return resolved;
  }

  async #itemOf(id: string, accountId: number, session: SessionName | undefined): Promise<Item | undefined> {
    const place = placeOfItem(id);
    if (place === undefined) return undefined;
    const kept = this.#sessions.find(session, place.responseId);
    if (kept !== undefined) return kept.findLast(item => item.id === id);
    const document = await this.#documents.find({ kind: 'response', id: place.responseId }, accountId);
    if (document === undefined) return undefined;
    const turn = turnIn(document);
    return turn[place.side].find(item => item.id === id);
  }
}

/**
 * A conversation as an upstream may see it: envelopes opened, without the gateway's own ids, in numbered turns. A tool call that was cut and never answered is
 * left out: no upstream takes half of its arguments.
 */
export function upstreamItems({ before, input }: Conversation, sealing: Sealing): Item[] {
  const answered = new Set<string>();
  for (const { content } of [...before, ...input])
    if (content.case === 'toolResult') answered.add(content.value.callId);
  const history = before.filter(
    ({ status, content }) =>
      content.case !== 'toolCall' || status !== ItemStatus.INCOMPLETE || answered.has(content.value.callId),
  );
  const items = [...sealing.open(history), ...sealing.open(input)];
  return renumberTurns(items.map(item => (placeOfItem(item.id) === undefined ? item : { ...item, id: '' })));
}

function notFound(id: string): GatewayError {
  return new GatewayError('previous_response_not_found', `There is no response ${id} to go on from.`, {
    param: 'previous_response_id',
  });
}

function unknownReference(id: string, index: number): GatewayError {
  return new GatewayError('unsupported_parameter', `There is no item ${id} to refer to.`, {
    param: `input.${index}.id`,
    tip: 'Refer to items of stored responses of the same account, or send the item itself.',
  });
}
