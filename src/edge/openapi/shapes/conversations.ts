import * as z from 'zod';
import { conversationSchemas } from '../../../codecs/responses/conversation.ts';
import { named } from '../json-schema.ts';
import { fieldTexts } from './field-texts.ts';

/** Stored conversations. Their items have the form of those of responses. */

const texts = { ...fieldTexts, items: 'At most 20 items, as in the input of a response.' };
/** Bodies of requests. */
export const conversationRequests = {
  create: named('NewConversation', conversationSchemas.create, texts),
  update: named('ConversationLabels', conversationSchemas.update, texts),
  add: named('NewConversationItems', conversationSchemas.add, texts),
};

/** Answers. */
export const conversations = {
  conversation: named(
    'Conversation',
    z.object({
      id: z.string().describe('The id, which a response names as its `conversation`.'),
      object: z.literal('conversation'),
      created_at: z.int().describe('Unix time in seconds.'),
      metadata: z.record(z.string(), z.string()),
    }),
  ),
  deleted: named(
    'ConversationDeleted',
    z.object({ id: z.string(), object: z.literal('conversation.deleted'), deleted: z.literal(true) }),
  ),
};
