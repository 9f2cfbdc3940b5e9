/** The same answer as upstreams of each protocol write it, in pieces between which a fault can happen. */
import type { TextProtocol } from '../upstreams/text-protocol.ts';

/** The text of the answer: five words. One call follows. */
export const words = [' one', ' two', ' three', ' four', ' five'] as const;
/** The arguments of the call, in the pieces in which some protocols send them. */
export const argumentParts = ['{"city"', ':"Par', 'is"}'] as const;

/** Token counts; the input includes tokens read from a cache. Absent counts are not sent. */
export interface Counts {
  readonly input?: number;
  readonly cached?: number;
  readonly output?: number;
  /** If true, the counts are sent as strings. */
  readonly asText?: true;
}

/** How a protocol writes the answer. */
export interface Wire {
  readonly protocol: TextProtocol;
  /** Returns the upstream's model in a request. */
  readModel(request: { readonly line: string; readonly body: string }): string;
  /** A first event without output. */
  readonly begun: string;
  readonly texts: readonly string[];
  /** The frames of the call, and the arguments that were sent up to the end of each. */
  readonly call: readonly { readonly frame: string; readonly shown: string }[];
  /** The frame with the finish reason; undefined if the protocol sends it together with the usage. */
  readonly finish: string | undefined;
  /** The formal end of a stream; '' if the protocol has none. */
  readonly end: string;
  /** Whether an answer counts as whole only with its formal end. */
  readonly needsEnd: boolean;
  usage(value: unknown): string;
  /** What an answer without usage has in its place. */
  readonly withoutUsage: string;
  counts(counts: Counts): unknown;
  /** Whether cached input is not included in the input tokens. */
  readonly countsApart: boolean;
  error(message: string, status: number): string;
  /** Returns the same answer, not streamed, with a usage. */
  whole(usage: unknown): string;
}

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const args = argumentParts.join('');
const said = (value: number | undefined, asText: true | undefined): unknown =>
  asText === true ? String(value) : value;

function defined(members: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}

function chatFrame(choice: object | undefined, more: object = {}): string {
  const choices = choice === undefined ? [] : [{ index: 0, logprobs: null, finish_reason: null, ...choice }];
  return data({
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1_790_000_000,
    model: 'm',
    choices,
    ...more,
  });
}
const chatDelta = (content: object): string => chatFrame({ delta: content });
const chatCall = (part: object): string => chatDelta({ tool_calls: [{ index: 0, ...part }] });

const modelInBody = ({ body }: { readonly body: string }): string => (JSON.parse(body) as { model: string }).model;

/** Chat Completions. */
export const chatWire: Wire = {
  protocol: 'chat',
  readModel: modelInBody,
  begun: chatDelta({ role: 'assistant', content: '' }),
  texts: words.map(content => chatDelta({ content })),
  call: [
    {
      frame: chatCall({ id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '' } }),
      shown: 'get_weather',
    },
    ...argumentParts.map(text => ({ frame: chatCall({ function: { arguments: text } }), shown: text })),
  ],
  finish: chatFrame({ delta: {}, finish_reason: 'tool_calls' }),
  end: 'data: [DONE]\n\n',
  needsEnd: false,
  usage: value => chatFrame(undefined, { usage: value }),
  withoutUsage: '',
  counts: ({ input, cached, output, asText }) =>
    defined({
      prompt_tokens: said(input, asText),
      completion_tokens: said(output, asText),
      prompt_tokens_details: cached === undefined ? undefined : { cached_tokens: cached },
    }),
  countsApart: false,
  error: (message, code) => data({ error: { message, type: 'server_error', code } }),
  whole: usage => {
    const call = { id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: args } };
    const message = { role: 'assistant', content: words.join(''), tool_calls: [call] };
    const choices = [{ index: 0, message, finish_reason: 'tool_calls' }];
    return JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model: 'm', choices, usage });
  },
};

let sequence = 0;
function numbered(type: string, members: object): string {
  const frame = `event: ${type}\n${data({ type, sequence_number: sequence, ...members })}`;
  sequence += 1;
  return frame;
}
const makeResponse = (status: string, more: object = {}): object => ({
  id: 'resp_up',
  object: 'response',
  created_at: 1_790_000_000,
  status,
  model: 'm',
  output: [],
  usage: null,
  ...more,
});
const outputText = { type: 'output_text', text: words.join(''), annotations: [], logprobs: [] };
const messageItem = { id: 'msg_up', type: 'message', role: 'assistant', status: 'completed', content: [outputText] };
const callItem = {
  id: 'fc_up',
  type: 'function_call',
  status: 'completed',
  call_id: 'call_1',
  name: 'get_weather',
  arguments: args,
};
const atMessage = { item_id: 'msg_up', output_index: 0, content_index: 0 };
const atCall = { item_id: 'fc_up', output_index: 1 };
const completedWith = (members: object): string =>
  numbered('response.completed', {
    response: makeResponse('completed', { output: [messageItem, callItem], ...members }),
  });
const argumentsDelta = (text: string): string =>
  numbered('response.function_call_arguments.delta', { ...atCall, delta: text });

/** OpenAI's Responses: the finish reason comes with the usage. */
export const responsesWire: Wire = {
  protocol: 'responses',
  readModel: modelInBody,
  begun: numbered('response.created', { response: makeResponse('in_progress') }),
  texts: words.map((word, index) => {
    const item = { ...messageItem, status: 'in_progress', content: [] };
    const opened =
      numbered('response.output_item.added', { output_index: 0, item }) +
      numbered('response.content_part.added', { ...atMessage, part: { ...outputText, text: '' } });
    const delta = numbered('response.output_text.delta', { ...atMessage, delta: word, logprobs: [] });
    return index === 0 ? opened + delta : delta;
  }),
  call: [
    {
      frame:
        numbered('response.output_text.done', { ...atMessage, text: outputText.text, logprobs: [] }) +
        numbered('response.content_part.done', { ...atMessage, part: outputText }) +
        numbered('response.output_item.done', { output_index: 0, item: messageItem }) +
        numbered('response.output_item.added', {
          output_index: 1,
          item: { ...callItem, status: 'in_progress', arguments: '' },
        }),
      shown: 'get_weather',
    },
    { frame: argumentsDelta(argumentParts[0]), shown: argumentParts[0] },
    { frame: argumentsDelta(argumentParts[1]), shown: argumentParts[1] },
    {
      frame:
        argumentsDelta(argumentParts[2]) +
        numbered('response.function_call_arguments.done', { ...atCall, name: callItem.name, arguments: args }) +
        numbered('response.output_item.done', { output_index: 1, item: callItem }),
      shown: argumentParts[2],
    },
  ],
  finish: undefined,
  end: 'data: [DONE]\n\n',
  needsEnd: false,
  usage: usage => completedWith({ usage }),
  withoutUsage: completedWith({}),
  counts: ({ input, cached, output, asText }) =>
    defined({
      input_tokens: said(input, asText),
      output_tokens: said(output, asText),
      input_tokens_details: cached === undefined ? undefined : { cached_tokens: cached },
    }),
  countsApart: false,
  error: (message, code) => numbered('error', { error: { message, type: 'server_error', code } }),
  whole: usage => JSON.stringify(makeResponse('completed', { output: [messageItem, callItem], usage })),
};

const event = (type: string, members: object): string => `event: ${type}\n${data({ type, ...members })}`;
const block = (index: number, content_block: object): string => event('content_block_start', { index, content_block });
const blockDelta = (index: number, delta: object): string => event('content_block_delta', { index, delta });
const errorTypes: Readonly<Record<number, string>> = { 429: 'rate_limit_error', 500: 'api_error' };

/** Anthropic Messages. */
export const messagesWire: Wire = {
  protocol: 'messages',
  readModel: modelInBody,
  begun: event('message_start', {
    message: { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', content: [] },
  }),
  texts: words.map((text, index) => {
    const delta = blockDelta(0, { type: 'text_delta', text });
    return index === 0 ? block(0, { type: 'text', text: '' }) + delta : delta;
  }),
  call: [
    {
      frame:
        event('content_block_stop', { index: 0 }) +
        block(1, { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: {} }),
      shown: 'get_weather',
    },
    ...argumentParts.map(text => ({
      frame: blockDelta(1, { type: 'input_json_delta', partial_json: text }),
      shown: text,
    })),
  ],
  finish:
    event('content_block_stop', { index: 1 }) +
    event('message_delta', { delta: { stop_reason: 'tool_use', stop_sequence: null }, usage: {} }),
  end: event('message_stop', {}),
  needsEnd: true,
  usage: value => event('message_delta', { delta: {}, usage: value }),
  withoutUsage: '',
  counts: ({ input, cached, output, asText }) =>
    defined({
      input_tokens: said(input === undefined ? undefined : input - (cached ?? 0), asText),
      output_tokens: said(output, asText),
      cache_read_input_tokens: cached,
    }),
  countsApart: true,
  error: (message, status) => event('error', { error: { type: errorTypes[status] ?? 'api_error', message } }),
  whole: usage =>
    JSON.stringify({
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'm',
      content: [
        { type: 'text', text: words.join('') },
        { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: { city: 'Paris' } },
      ],
      stop_reason: 'tool_use',
      stop_sequence: null,
      usage,
    }),
};

const geminiFrame = (members: object): string => data({ ...members, modelVersion: 'm', responseId: 'r-1' });
const candidate = (parts: object[], more: object = {}): object => ({
  candidates: [{ index: 0, content: { role: 'model', parts }, ...more }],
});
const functionCall = { functionCall: { id: 'up-1', name: 'get_weather', args: { city: 'Paris' } } };

/** Gemini's generateContent: a call comes whole, and there is no formal end. */
export const geminiWire: Wire = {
  protocol: 'gemini',
  readModel: ({ line }) => decodeURIComponent(/\/v1beta\/models\/([^/:]+):/.exec(line)?.[1] ?? ''),
  begun: geminiFrame(candidate([])),
  texts: words.map(text => geminiFrame(candidate([{ text }]))),
  call: [{ frame: geminiFrame(candidate([functionCall])), shown: `get_weather${args}` }],
  finish: geminiFrame(candidate([], { finishReason: 'STOP' })),
  end: '',
  needsEnd: false,
  usage: value => geminiFrame({ usageMetadata: value }),
  withoutUsage: '',
  counts: ({ input, cached, output, asText }) =>
    defined({
      promptTokenCount: said(input, asText),
      candidatesTokenCount: said(output, asText),
      cachedContentTokenCount: cached,
    }),
  countsApart: false,
  error: (message, code) => data({ error: { code, message, status: 'UNAVAILABLE' } }),
  whole: usage =>
    JSON.stringify({
      ...candidate([{ text: words.join('') }, functionCall], { finishReason: 'STOP' }),
      usageMetadata: usage,
      responseId: 'r-1',
    }),
};
