/** One answer as upstreams of each protocol write it, in the pieces between which something can go wrong. */

/** The words of the answer. */
export const words = [' one', ' two', ' three', ' four', ' five'] as const;
/** The pieces of the call's arguments. */
export const argumentParts = ['{"city"', ':"Par', 'is"}'] as const;
const toolName = 'get_weather';

/** The pieces, each one event or several. */
export interface UpstreamBytes {
  readonly protocol: 'chat' | 'responses';
  /** An event without output. */
  readonly begin: string;
  /** An event for each word. */
  readonly texts: readonly string[];
  /** The call begins. */
  readonly opened: string;
  /** An event for each piece of the arguments. */
  readonly parts: readonly string[];
  /** What ends the call. */
  readonly closed: string;
  /** The model's own finish; undefined where the protocol tells it together with the usage. */
  readonly finish: string | undefined;
  /** The usage as it stands in Chat, told in the protocol's words; with the finish where that is told together. */
  readonly usage: (value: unknown) => string;
  /** The finish of an answer that has no usage. */
  readonly withoutUsage: string;
  readonly end: string;
  /** The whole answer, not streamed. */
  readonly json: (usage: unknown) => string;
  readonly errorEvent: (error: object) => string;
}

function chatFrame(choice: object | undefined, more: object = {}): string {
  const choices = choice === undefined ? [] : [{ index: 0, logprobs: null, finish_reason: null, ...choice }];
  const chunkOf = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1_790_000_000, model: 'm', choices };
  return `data: ${JSON.stringify({ ...chunkOf, ...more })}\n\n`;
}

const delta = (content: object): string => chatFrame({ delta: content });
const call = (part: object): string => delta({ tool_calls: [{ index: 0, ...part }] });
const chatCall = {
  id: 'call_1',
  type: 'function',
  function: { name: toolName, arguments: argumentParts.join('') },
};

const chatBytes: UpstreamBytes = {
  protocol: 'chat',
  begin: delta({ role: 'assistant', content: '' }),
  texts: words.map(content => delta({ content })),
  opened: call({ id: 'call_1', type: 'function', function: { name: toolName, arguments: '' } }),
  parts: argumentParts.map(text => call({ function: { arguments: text } })),
  closed: '',
  finish: chatFrame({ delta: {}, finish_reason: 'tool_calls' }),
  usage: value => chatFrame(undefined, { usage: value }),
  withoutUsage: '',
  end: 'data: [DONE]\n\n',
  json: usage =>
    JSON.stringify({
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: 1_790_000_000,
      model: 'm',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: words.join(''), tool_calls: [chatCall] },
          finish_reason: 'tool_calls',
        },
      ],
      usage,
    }),
  errorEvent: error => `data: ${JSON.stringify({ error })}\n\n`,
};

let sequence = 0;
function event(type: string, members: object): string {
  const data = JSON.stringify({ type, sequence_number: sequence, ...members });
  sequence += 1;
  return `event: ${type}\ndata: ${data}\n\n`;
}

const responseOf = (status: string, more: object = {}): object => ({
  id: 'resp_up',
  object: 'response',
  created_at: 1_790_000_000,
  status,
  model: 'm',
  output: [],
  usage: null,
  ...more,
});
const text = { type: 'output_text', text: words.join(''), annotations: [], logprobs: [] };
const message = { id: 'msg_up', type: 'message', role: 'assistant', status: 'completed', content: [text] };
const functionCall = {
  id: 'fc_up',
  type: 'function_call',
  status: 'completed',
  call_id: 'call_1',
  name: toolName,
  arguments: argumentParts.join(''),
};
const atMessage = { item_id: 'msg_up', output_index: 0, content_index: 0 };
const atCall = { item_id: 'fc_up', output_index: 1 };

/** Chat's names of counts, as Responses calls them. */
const counts: Readonly<Record<string, string>> = {
  prompt_tokens: 'input_tokens',
  completion_tokens: 'output_tokens',
  prompt_tokens_details: 'input_tokens_details',
  completion_tokens_details: 'output_tokens_details',
};

function responsesUsage(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, count]) => [counts[name] ?? name, count]));
}

const completedWith = (members: object): string =>
  event('response.completed', { response: responseOf('completed', { output: [message, functionCall], ...members }) });

const responsesBytes: UpstreamBytes = {
  protocol: 'responses',
  begin: event('response.created', { response: responseOf('in_progress') }),
  texts: words.map((word, index) => {
    const added = event('response.output_item.added', {
      output_index: 0,
      item: { ...message, status: 'in_progress', content: [] },
    });
    const part = event('response.content_part.added', { ...atMessage, part: { ...text, text: '' } });
    const said = event('response.output_text.delta', { ...atMessage, delta: word, logprobs: [] });
    return index === 0 ? added + part + said : said;
  }),
  opened:
    event('response.output_text.done', { ...atMessage, text: text.text, logprobs: [] }) +
    event('response.content_part.done', { ...atMessage, part: text }) +
    event('response.output_item.done', { output_index: 0, item: message }) +
    event('response.output_item.added', {
      output_index: 1,
      item: { ...functionCall, status: 'in_progress', arguments: '' },
    }),
  parts: argumentParts.map(part => event('response.function_call_arguments.delta', { ...atCall, delta: part })),
  closed:
    event('response.function_call_arguments.done', { ...atCall, name: toolName, arguments: functionCall.arguments }) +
    event('response.output_item.done', { output_index: 1, item: functionCall }),
  finish: undefined,
  usage: value => completedWith({ usage: responsesUsage(value) }),
  withoutUsage: completedWith({}),
  end: 'data: [DONE]\n\n',
  json: usage =>
    JSON.stringify(responseOf('completed', { output: [message, functionCall], usage: responsesUsage(usage) })),
  errorEvent: error => event('error', { error }),
};

let speaks = chatBytes;

/** From now on the upstream of the fault table speaks Responses. */
export function speakResponses(): void {
  speaks = responsesBytes;
}

/** What the upstream of the fault table speaks. */
export function upstreamBytes(): UpstreamBytes {
  return speaks;
}
