import type * as z from 'zod';
import { type Item, Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import type { Conversation } from '../../gen/tollgate/v1/conversation_pb.ts';
import type { JsonObject } from '../codec.ts';
import { listOf, metadata, object, parseBody, UnknownMembers } from '../schema.ts';
import { decodeInput } from './decode-input.ts';
import { inputItem } from './input-schema.ts';
import { renderItem } from './render-item.ts';

/** Decodes and renders conversations in OpenAI's format. Source: OpenAI API reference, "Conversations". */

const itemsMax = 20;
const newItems = listOf(inputItem, 1, itemsMax);

/** The schemas of the request bodies. */
export const conversationSchemas = {
  create: object({ items: listOf(inputItem, 0, itemsMax).nullish(), metadata: metadata.nullish() }),
  update: object({ metadata }),
  add: object({ items: newItems }),
};

/** The initial items of a conversation. */
export interface NewConversation {
  readonly items: Item[];
  readonly metadata: Record<string, string>;
}

/** Decodes the body that begins a conversation. Throws `validation_error`. */
export function decodeNewConversation(body: unknown): NewConversation {
  const { items, metadata: labels } = parseBody(conversationSchemas.create, body);
  return { items: decodeItems(items ?? []), metadata: labels ?? {} };
}

/** Decodes the body that sets the labels of a conversation. Throws `validation_error`. */
export function decodeLabels(body: unknown): Record<string, string> {
  return parseBody(conversationSchemas.update, body).metadata;
}

/** Decodes the body that adds items. Throws `validation_error`. */
export function decodeNewItems(body: unknown): Item[] {
  return decodeItems(parseBody(conversationSchemas.add, body).items);
}

function decodeItems(items: z.output<typeof newItems>): Item[] {
  return decodeInput(items, new UnknownMembers(Protocol.RESPONSES), 'items');
}

/** Renders a conversation, without its items. */
export function renderConversation({ id, createdAtMs, metadata: labels }: Conversation): JsonObject {
  return {
    id,
    object: 'conversation',
    created_at: Math.floor(Number(createdAtMs) / 1000),
    metadata: { ...labels },
  };
}

/** Renders a page of items. */
export function renderItemPage(items: readonly Item[], hasMore: boolean): JsonObject {
  return {
    object: 'list',
    data: items.map(renderItem),
    first_id: items[0]?.id ?? null,
    last_id: items.at(-1)?.id ?? null,
    has_more: hasMore,
  };
}
