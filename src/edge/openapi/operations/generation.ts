import { generationErrors, generationHeaders, type Operation, pathId, query, readErrors } from '../operation.ts';
import { chatCompletion, chatRequest } from '../shapes/chat.ts';
import { countRequest, messages, messagesRequest } from '../shapes/messages.ts';
import { continuingRequest, responses, responsesRequest } from '../shapes/responses.ts';

/** The paths that run language models. */

/** The headers of a model's answer that is not streamed. */
const costHeaders = [
  'x-tollgate-cost',
  'x-tollgate-route',
  'x-tollgate-warnings',
  'x-ratelimit-limit-requests',
  'x-ratelimit-remaining-requests',
  'x-ratelimit-reset-requests',
];
const stream = (description: string, example: string) => ({ 'text/event-stream': { description, example } });

const hello = [{ role: 'user', content: 'Say hello in five words.' }];
const chat: Operation = {
  method: 'post',
  path: '/v1/chat/completions',
  id: 'createChatCompletion',
  tag: 'Chat',
  summary: 'Answer a conversation (Chat Completions)',
  description: 'With `stream: true` each event is a `chat.completion.chunk`, and the last one is `[DONE]`.',
  access: 'api_key',
  parameters: generationHeaders,
  body: {
    schema: chatRequest,
    examples: {
      plain: { summary: 'A question', value: { model: 'sim/small', messages: hello, max_completion_tokens: 64 } },
      stream: {
        summary: 'A stream with its usage',
        value: { model: 'sim/small', messages: hello, stream: true, stream_options: { include_usage: true } },
      },
      tools: {
        summary: 'A tool that the model may call',
        value: {
          model: 'sim/small',
          messages: [{ role: 'user', content: 'How warm is it in Oslo?' }],
          tools: [
            {
              type: 'function',
              function: {
                name: 'get_temperature',
                description: 'Returns the temperature of a place.',
                parameters: { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] },
              },
            },
          ],
        },
      },
    },
  },
  answers: {
    200: {
      description: 'The answer.',
      schema: chatCompletion,
      others: stream(
        'Chunks of the answer.',
        'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\ndata: [DONE]\n\n',
      ),
      headers: costHeaders,
    },
  },
  errors: generationErrors,
};

const message: Operation = {
  method: 'post',
  path: '/v1/messages',
  id: 'createMessage',
  tag: 'Messages',
  summary: 'Answer a conversation (Messages)',
  description:
    'With `stream: true` the events are `message_start`, `content_block_start`, `content_block_delta`, `content_block_stop`, `message_delta`, `message_stop` and `ping`.',
  access: 'api_key',
  parameters: generationHeaders,
  body: {
    schema: messagesRequest,
    examples: {
      plain: { summary: 'A question', value: { model: 'sim/small', max_tokens: 64, messages: hello } },
      stream: {
        summary: 'A stream with a system text',
        value: { model: 'sim/small', max_tokens: 64, system: 'Be brief.', messages: hello, stream: true },
      },
    },
  },
  answers: {
    200: {
      description: 'The answer.',
      schema: messages.message,
      others: stream('Events of the answer.', 'event: message_stop\ndata: {"type":"message_stop"}\n\n'),
      headers: costHeaders,
    },
  },
  errors: generationErrors,
  errorShape: 'messages',
};

const countTokens: Operation = {
  method: 'post',
  path: '/v1/messages/count_tokens',
  id: 'countMessageTokens',
  tag: 'Messages',
  summary: 'Count the tokens of a request (Messages)',
  description: 'Free, and counted in no limit.',
  access: 'api_key',
  body: {
    schema: countRequest,
    examples: { plain: { summary: 'A question', value: { model: 'sim/small', messages: hello } } },
  },
  answers: { 200: { description: 'The count.', schema: messages.count } },
  errors: generationErrors,
  errorShape: 'messages',
};

const create: Operation = {
  method: 'post',
  path: '/v1/responses',
  id: 'createResponse',
  tag: 'Responses',
  summary: 'Answer an input (Responses)',
  description:
    'With `stream: true` the events are those of the Responses interface, from `response.created` to `response.completed`, `response.incomplete` or `response.failed`. A WebSocket to the same path (GET with `Upgrade: websocket`) takes the same bodies as `response.create` events.',
  access: 'api_key',
  parameters: generationHeaders,
  body: {
    schema: responsesRequest,
    examples: {
      plain: { summary: 'A question', value: { model: 'sim/small', input: 'Say hello in five words.' } },
      stream: {
        summary: 'A stream that is not stored',
        value: { model: 'sim/small', input: [{ role: 'user', content: 'Say hello.' }], stream: true, store: false },
      },
      background: {
        summary: 'In the background',
        value: { model: 'sim/small', input: 'Say hello.', background: true },
      },
    },
  },
  answers: {
    200: {
      description: 'The response.',
      schema: responses.response,
      others: stream('Events of the response.', 'event: response.completed\ndata: {"type":"response.completed"}\n\n'),
      headers: costHeaders,
    },
  },
  errors: generationErrors,
};

const responseId = pathId('id', 'The response: `resp_…`.');
const include = query('include', 'Additional content for the answer.', {
  type: 'array',
  items: { enum: ['reasoning.encrypted_content', 'message.output_text.logprobs'] },
});
const stored: readonly Operation[] = [
  {
    method: 'get',
    path: '/v1/responses/{id}',
    id: 'getResponse',
    tag: 'Responses',
    summary: 'Read or follow a stored response',
    access: 'api_key',
    parameters: [
      responseId,
      include,
      query('stream', 'Whether to stream the events of the response.', { enum: ['true', 'false'] }),
      query('starting_after', 'With `stream=true`: only events after this number.', { type: 'integer', minimum: 0 }),
    ],
    answers: {
      200: {
        description: 'The response.',
        schema: responses.response,
        others: stream('Its events.', 'event: response.completed\ndata: {"type":"response.completed"}\n\n'),
      },
    },
    errors: readErrors,
  },
  {
    method: 'delete',
    path: '/v1/responses/{id}',
    id: 'deleteResponse',
    tag: 'Responses',
    summary: 'Delete a stored response',
    access: 'api_key',
    parameters: [responseId],
    answers: { 200: { description: 'The response is deleted.', schema: responses.deleted } },
    errors: readErrors,
  },
  {
    method: 'post',
    path: '/v1/responses/{id}/cancel',
    id: 'cancelResponse',
    tag: 'Responses',
    summary: 'Cancel a background response',
    access: 'api_key',
    parameters: [responseId],
    answers: { 200: { description: 'The response.', schema: responses.response } },
    errors: [...readErrors, 409],
  },
  {
    method: 'get',
    path: '/v1/responses/{id}/input_items',
    id: 'listInputItems',
    tag: 'Responses',
    summary: 'List the input items of a stored response',
    access: 'api_key',
    parameters: [
      responseId,
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
];

const continuing: readonly Operation[] = [
  {
    method: 'post',
    path: '/v1/responses/input_tokens',
    id: 'countInputTokens',
    tag: 'Responses',
    summary: 'Count the tokens of a request (Responses)',
    description: 'Free, and counted in no limit.',
    access: 'api_key',
    body: {
      schema: continuingRequest,
      examples: { plain: { summary: 'A text', value: { model: 'sim/small', input: 'Say hello.' } } },
    },
    answers: { 200: { description: 'The count.', schema: responses.inputTokens } },
    errors: generationErrors,
  },
  {
    method: 'post',
    path: '/v1/responses/compact',
    id: 'compactResponse',
    tag: 'Responses',
    summary: 'Compact a conversation',
    access: 'api_key',
    parameters: generationHeaders,
    body: {
      schema: continuingRequest,
      examples: {
        plain: { summary: 'A conversation', value: { model: 'sim/small', input: 'We talked about tolls.' } },
      },
    },
    answers: {
      200: {
        description: 'The items to send instead of the conversation.',
        schema: responses.compaction,
        headers: costHeaders,
      },
    },
    errors: generationErrors,
  },
];

/** The operations of language models. */
export const generationOperations: readonly Operation[] = [
  chat,
  message,
  countTokens,
  create,
  ...stored,
  ...continuing,
];
