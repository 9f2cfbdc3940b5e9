import { changeErrors, idempotencyHeader, type Operation, pathId, query, readErrors } from '../operation.ts';
import { conversationRequests, conversations } from '../shapes/conversations.ts';
import { responses, storedItem } from '../shapes/responses.ts';

/** The paths of stored conversations. */

const tag = 'Conversations';
const access = 'api_key';
const path = '/v1/conversations';
const onePath = `${path}/{id}`;
const itemsPath = `${onePath}/items`;
const itemPath = `${itemsPath}/{itemId}`;
const id = pathId('id', 'The conversation: `conv_…`.');
const itemId = pathId('itemId', 'The item.');
const include = query('include', 'Additional content for the answer.', {
  type: 'array',
  items: { enum: ['reasoning.encrypted_content', 'message.output_text.logprobs'] },
});
const answer = { 200: { description: 'The conversation.', schema: conversations.conversation } };
const items = [{ role: 'user', content: 'My name is Ada.' }];

const whole: readonly Operation[] = [
  {
    method: 'post',
    path,
    id: 'createConversation',
    tag,
    summary: 'Begin a conversation',
    description: 'Kept 30 days after its last use.',
    access,
    parameters: [idempotencyHeader],
    body: {
      schema: conversationRequests.create,
      examples: { plain: { summary: 'With an item', value: { items, metadata: { topic: 'names' } } } },
      optional: true,
    },
    answers: answer,
    errors: changeErrors,
  },
  {
    method: 'get',
    path: onePath,
    id: 'getConversation',
    tag,
    summary: 'Read a conversation',
    access,
    parameters: [id],
    answers: answer,
    errors: readErrors,
  },
  {
    method: 'post',
    path: onePath,
    id: 'updateConversation',
    tag,
    summary: 'Set the labels of a conversation',
    access,
    parameters: [id],
    body: {
      schema: conversationRequests.update,
      examples: { plain: { summary: 'A label', value: { metadata: { topic: 'names' } } } },
    },
    answers: answer,
    errors: changeErrors,
  },
  {
    method: 'delete',
    path: onePath,
    id: 'deleteConversation',
    tag,
    summary: 'Delete a conversation',
    access,
    parameters: [id],
    answers: { 200: { description: 'The conversation is deleted.', schema: conversations.deleted } },
    errors: changeErrors,
  },
];

const single: readonly Operation[] = [
  {
    method: 'post',
    path: itemsPath,
    id: 'addConversationItems',
    tag,
    summary: 'Add items to a conversation',
    access,
    parameters: [id, include, idempotencyHeader],
    body: { schema: conversationRequests.add, examples: { plain: { summary: 'An item', value: { items } } } },
    answers: { 200: { description: 'The added items.', schema: responses.items } },
    errors: changeErrors,
  },
  {
    method: 'get',
    path: itemsPath,
    id: 'listConversationItems',
    tag,
    summary: 'List the items of a conversation',
    access,
    parameters: [
      id,
      query('limit', 'The most items of the page.', {
        type: 'integer',
        minimum: 1,
        maximum: 100,
        default: 20,
      }),
      query('after', 'The id of the last item of the previous page.'),
      query('order', '`desc`: newest first; `asc`: oldest first.', { enum: ['desc', 'asc'], default: 'desc' }),
      include,
    ],
    answers: { 200: { description: 'A page of items.', schema: responses.items } },
    errors: readErrors,
  },
  {
    method: 'get',
    path: itemPath,
    id: 'getConversationItem',
    tag,
    summary: 'Read an item of a conversation',
    access,
    parameters: [id, itemId, include],
    answers: { 200: { description: 'The item.', schema: storedItem } },
    errors: readErrors,
  },
  {
    method: 'delete',
    path: itemPath,
    id: 'deleteConversationItem',
    tag,
    summary: 'Delete an item of a conversation',
    access,
    parameters: [id, itemId],
    answers: answer,
    errors: changeErrors,
  },
];

/** The operations of stored conversations. */
export const conversationOperations: readonly Operation[] = [...whole, ...single];
