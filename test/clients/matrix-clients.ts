/** The official clients: each sends the same requests in its format, and its answers are converted to a common format. */
import Anthropic from '@anthropic-ai/sdk';
import { type Content, FinishReason, type GenerateContentConfig, GoogleGenAI, type Part } from '@google/genai';
import OpenAI from 'openai';
import type { ChatCompletionCreateParamsNonStreaming } from 'openai/resources/chat/completions';
import type { ResponseCreateParamsNonStreaming, ResponseInputItem } from 'openai/resources/responses/responses';
import type { Gateway } from '../gateway.ts';

/** A request: the last user text, and what a feature adds. */
export interface Question {
  readonly text: string;
  readonly tools?: true;
  /** A PNG in base64. */
  readonly image?: string;
  readonly reasoning?: true;
  readonly schema?: Record<string, unknown>;
  /** A long system prompt, which can be cached. */
  readonly system?: string;
  readonly stop?: string;
  readonly limit?: number;
}

/** A client's answer. */
export interface Got {
  readonly text: string;
  readonly reasoningText: string;
  readonly calls: readonly { readonly id: string; readonly name: string; readonly args: unknown }[];
  readonly finish: 'stop' | 'tool_calls' | 'length' | 'content_filter' | 'other';
  readonly cached: number;
  readonly output: number;
}

/** A client that sends a request, and after calls continues with a result for each. */
export interface MatrixClient {
  readonly name: string;
  ask(
    model: string,
    question: Question,
    streamed: boolean,
  ): Promise<{ got: Got; goOn: (result: string) => Promise<Got> }>;
}

const weather = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
} as const;
const description = 'The weather of a city';

const chatFinishes: Readonly<Record<string, Got['finish']>> = {
  stop: 'stop',
  tool_calls: 'tool_calls',
  length: 'length',
  content_filter: 'content_filter',
};
const messagesFinishes: Readonly<Record<string, Got['finish']>> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  tool_use: 'tool_calls',
  max_tokens: 'length',
  refusal: 'content_filter',
};

/** Members that the gateway adds to a message or delta. */
interface Thinking {
  readonly reasoning_content?: string;
}

interface ChatAnswer {
  readonly completion: OpenAI.ChatCompletion;
  readonly reasoningText: string;
}

/** Returns the official client of Chat Completions. */
export function chatClient({ url, apiKey }: Pick<Gateway, 'url' | 'apiKey'>): MatrixClient {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey });
  type Body = ChatCompletionCreateParamsNonStreaming;
  const answer = async (body: Body, streamed: boolean): Promise<ChatAnswer> => {
    if (!streamed) {
      const completion = await client.chat.completions.create(body);
      const { reasoning_content: reasoningText = '' } = (completion.choices[0]?.message ?? {}) as Thinking;
      return { completion, reasoningText };
    }
    const stream = client.chat.completions.stream({ ...body, stream: true, stream_options: { include_usage: true } });
    let reasoningText = '';
    // The client does not know reasoning, so its final message has only the last delta of it.
    stream.on('chunk', chunk => {
      reasoningText += ((chunk.choices[0]?.delta ?? {}) as Thinking).reasoning_content ?? '';
    });
    return { completion: await stream.finalChatCompletion(), reasoningText };
  };
  return {
    name: 'Chat',
    async ask(model, question, streamed) {
      const body: Body = { model, messages: chatMessages(question), ...chatSettings(question) };
      const first = await answer(body, streamed);
      return {
        got: readChatAnswer(first),
        goOn: async result => {
          const message = first.completion.choices[0]?.message;
          const results = (message?.tool_calls ?? []).map(({ id }) => ({
            role: 'tool' as const,
            tool_call_id: id,
            content: result,
          }));
          const messages = [...body.messages, ...(message === undefined ? [] : [message]), ...results];
          return readChatAnswer(await answer({ ...body, messages }, streamed));
        },
      };
    },
  };
}

function chatMessages({ text, image, system }: Question): ChatCompletionCreateParamsNonStreaming['messages'] {
  const imagePart = { type: 'image_url' as const, image_url: { url: `data:image/png;base64,${image ?? ''}` } };
  return [
    ...(system === undefined ? [] : [{ role: 'system' as const, content: system }]),
    { role: 'user', content: image === undefined ? text : [{ type: 'text', text }, imagePart] },
  ];
}

function chatSettings(question: Question): Omit<ChatCompletionCreateParamsNonStreaming, 'model' | 'messages'> {
  const { tools, reasoning, schema, stop, limit } = question;
  const tool = { type: 'function' as const, function: { name: 'get_weather', description, parameters: weather } };
  return {
    ...(tools === undefined ? {} : { tools: [tool] }),
    ...(reasoning === undefined ? {} : { reasoning_effort: 'low' as const }),
    ...(schema === undefined
      ? {}
      : { response_format: { type: 'json_schema' as const, json_schema: { name: 'answer', schema, strict: true } } }),
    ...(stop === undefined ? {} : { stop: [stop] }),
    max_completion_tokens: limit ?? 4_000,
  };
}

function readChatAnswer({ completion: { choices, usage }, reasoningText }: ChatAnswer): Got {
  const message = choices[0]?.message;
  const calls = (message?.tool_calls ?? []).flatMap(call =>
    call.type === 'function'
      ? [{ id: call.id, name: call.function.name, args: JSON.parse(call.function.arguments) as unknown }]
      : [],
  );
  return {
    text: message?.content ?? '',
    reasoningText,
    calls,
    finish: chatFinishes[choices[0]?.finish_reason ?? ''] ?? 'other',
    cached: usage?.prompt_tokens_details?.cached_tokens ?? 0,
    output: usage?.completion_tokens ?? 0,
  };
}

/** Returns the official client of Responses. It continues with the items that it received, as its documentation shows. */
export function responsesClient({ url, apiKey }: Pick<Gateway, 'url' | 'apiKey'>): MatrixClient {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey });
  type Body = ResponseCreateParamsNonStreaming;
  const answer = async (body: Body, streamed: boolean): Promise<OpenAI.Responses.Response> =>
    streamed ? client.responses.stream({ ...body, stream: true }).finalResponse() : client.responses.create(body);
  return {
    name: 'Responses',
    async ask(model, question, streamed) {
      const input = responsesInput(question);
      const body: Body = { model, input, store: false, ...responsesSettings(question) };
      const first = await answer(body, streamed);
      return {
        got: readResponsesAnswer(first),
        goOn: async result => {
          const results = first.output.flatMap(item =>
            item.type === 'function_call'
              ? [{ type: 'function_call_output' as const, call_id: item.call_id, output: result }]
              : [],
          );
          // Items of an answer can be sent in a request, without the members that only answers have.
          const said = first.output as ResponseInputItem[];
          return readResponsesAnswer(await answer({ ...body, input: [...input, ...said, ...results] }, streamed));
        },
      };
    },
  };
}

function responsesInput({ text, image, system }: Question): ResponseInputItem[] {
  const imagePart = {
    type: 'input_image' as const,
    detail: 'auto' as const,
    image_url: `data:image/png;base64,${image ?? ''}`,
  };
  const words = { type: 'input_text' as const, text };
  return [
    ...(system === undefined ? [] : [{ role: 'system' as const, content: system }]),
    { role: 'user', content: image === undefined ? text : [words, imagePart] },
  ];
}

function responsesSettings(question: Question): Omit<ResponseCreateParamsNonStreaming, 'model' | 'input'> {
  const { tools, reasoning, schema, limit } = question;
  const tool = {
    type: 'function' as const,
    name: 'get_weather',
    description,
    parameters: { ...weather },
    strict: false,
  };
  return {
    ...(tools === undefined ? {} : { tools: [tool] }),
    // The signatures that the next request needs.
    include: ['reasoning.encrypted_content'],
    ...(reasoning === undefined ? {} : { reasoning: { effort: 'low' as const, summary: 'auto' as const } }),
    ...(schema === undefined
      ? {}
      : { text: { format: { type: 'json_schema' as const, name: 'answer', schema, strict: true } } }),
    max_output_tokens: limit ?? 4_000,
  };
}

function readResponsesAnswer({
  output,
  output_text: text,
  incomplete_details: why,
  usage,
}: OpenAI.Responses.Response): Got {
  const calls = output.flatMap(item =>
    item.type === 'function_call'
      ? [{ id: item.call_id, name: item.name, args: JSON.parse(item.arguments) as unknown }]
      : [],
  );
  const reasoningText = output.flatMap(item =>
    item.type === 'reasoning' ? [...item.summary, ...(item.content ?? [])].map(part => part.text) : [],
  );
  const cut = why?.reason === 'max_output_tokens' ? 'length' : 'content_filter';
  return {
    text,
    reasoningText: reasoningText.join(''),
    calls,
    finish: why == null ? (calls.length > 0 ? 'tool_calls' : 'stop') : cut,
    cached: usage?.input_tokens_details?.cached_tokens ?? 0,
    output: usage?.output_tokens ?? 0,
  };
}

/** Returns the official client of Messages. */
export function messagesClient({ url, apiKey }: Pick<Gateway, 'url' | 'apiKey'>): MatrixClient {
  const client = new Anthropic({ baseURL: url, apiKey });
  const answer = (body: Anthropic.MessageCreateParamsNonStreaming, streamed: boolean): Promise<Anthropic.Message> =>
    streamed ? client.messages.stream(body).finalMessage() : client.messages.create(body);
  return {
    name: 'Messages',
    async ask(model, question, streamed) {
      const body = messagesBody(model, question);
      const first = await answer(body, streamed);
      return {
        got: readMessagesAnswer(first),
        goOn: async result => {
          const results = first.content.flatMap(block =>
            block.type === 'tool_use' ? [{ type: 'tool_result' as const, tool_use_id: block.id, content: result }] : [],
          );
          const messages = [
            ...body.messages,
            { role: 'assistant' as const, content: first.content },
            { role: 'user' as const, content: results },
          ];
          return readMessagesAnswer(await answer({ ...body, messages }, streamed));
        },
      };
    },
  };
}

function messagesBody(model: string, question: Question): Anthropic.MessageCreateParamsNonStreaming {
  const { text, image, system, tools, reasoning, schema, stop, limit } = question;
  const imagePart = {
    type: 'image' as const,
    source: { type: 'base64' as const, media_type: 'image/png' as const, data: image ?? '' },
  };
  const cached = { type: 'text' as const, text: system ?? '', cache_control: { type: 'ephemeral' as const } };
  return {
    model,
    max_tokens: limit ?? 4_000,
    ...(system === undefined ? {} : { system: [cached] }),
    messages: [{ role: 'user', content: image === undefined ? text : [{ type: 'text', text }, imagePart] }],
    ...(tools === undefined
      ? {}
      : { tools: [{ name: 'get_weather', description, input_schema: { ...weather, required: ['city'] } }] }),
    ...(reasoning === undefined ? {} : { thinking: { type: 'enabled' as const, budget_tokens: 1_024 } }),
    ...(schema === undefined ? {} : { output_config: { format: { type: 'json_schema' as const, schema } } }),
    ...(stop === undefined ? {} : { stop_sequences: [stop] }),
  };
}

function readMessagesAnswer({ content, stop_reason: reason, usage }: Anthropic.Message): Got {
  return {
    text: content.map(block => (block.type === 'text' ? block.text : '')).join(''),
    reasoningText: content.map(block => (block.type === 'thinking' ? block.thinking : '')).join(''),
    calls: content.flatMap(block =>
      block.type === 'tool_use' ? [{ id: block.id, name: block.name, args: block.input }] : [],
    ),
    finish: messagesFinishes[reason ?? ''] ?? 'other',
    cached: usage.cache_read_input_tokens ?? 0,
    output: usage.output_tokens,
  };
}

const geminiFinishes: Readonly<Record<string, Got['finish']>> = {
  [FinishReason.STOP]: 'stop',
  [FinishReason.MAX_TOKENS]: 'length',
  [FinishReason.SAFETY]: 'content_filter',
};

/** What the matrix reads of a whole answer, or of all chunks of a stream. */
interface GeminiAnswer {
  readonly parts: readonly Part[];
  readonly finish: string | undefined;
  readonly cached: number;
  readonly output: number;
}

/** Returns the official client of Gemini's interface. It continues with all parts that it received, as its chats do. */
export function geminiClient({ url, apiKey }: Pick<Gateway, 'url' | 'apiKey'>): MatrixClient {
  const client = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: url } });
  type Body = { readonly model: string; readonly contents: Content[]; readonly config: GenerateContentConfig };
  const answer = async (body: Body, streamed: boolean): Promise<GeminiAnswer> => {
    const chunks = streamed
      ? await Array.fromAsync(await client.models.generateContentStream(body))
      : [await client.models.generateContent(body)];
    const candidates = chunks.flatMap(chunk => chunk.candidates ?? []);
    const usage = chunks.at(-1)?.usageMetadata;
    return {
      parts: candidates.flatMap(candidate => candidate.content?.parts ?? []),
      finish: candidates.map(({ finishReason }) => finishReason).findLast(reason => reason !== undefined),
      cached: usage?.cachedContentTokenCount ?? 0,
      output: (usage?.candidatesTokenCount ?? 0) + (usage?.thoughtsTokenCount ?? 0),
    };
  };
  return {
    name: 'Gemini',
    async ask(model, question, streamed) {
      const body = geminiBody(model, question);
      const first = await answer(body, streamed);
      return {
        got: readGeminiAnswer(first),
        goOn: async result => {
          const results = first.parts.flatMap(({ functionCall: call }) =>
            call === undefined
              ? []
              : [
                  {
                    functionResponse: {
                      ...(call.id && { id: call.id }),
                      name: call.name ?? '',
                      response: { output: result },
                    },
                  },
                ],
          );
          const turns = [
            { role: 'model', parts: [...first.parts] },
            { role: 'user', parts: results },
          ];
          return readGeminiAnswer(await answer({ ...body, contents: [...body.contents, ...turns] }, streamed));
        },
      };
    },
  };
}

function geminiBody(model: string, question: Question) {
  const { text, image, system, tools, reasoning, schema, stop, limit } = question;
  const imagePart = { inlineData: { mimeType: 'image/png', data: image ?? '' } };
  const declared = { name: 'get_weather', description, parametersJsonSchema: weather };
  const config: GenerateContentConfig = {
    maxOutputTokens: limit ?? 4_000,
    ...(system === undefined ? {} : { systemInstruction: system }),
    ...(tools === undefined ? {} : { tools: [{ functionDeclarations: [declared] }] }),
    ...(reasoning === undefined ? {} : { thinkingConfig: { thinkingBudget: 1_024, includeThoughts: true } }),
    ...(schema === undefined ? {} : { responseMimeType: 'application/json', responseJsonSchema: schema }),
    ...(stop === undefined ? {} : { stopSequences: [stop] }),
  };
  return {
    model,
    contents: [{ role: 'user', parts: [{ text }, ...(image === undefined ? [] : [imagePart])] }],
    config,
  };
}

function readGeminiAnswer({ parts, finish, cached, output }: GeminiAnswer): Got {
  const texts = (isThought: boolean): string =>
    parts.map(part => ((part.thought === true) === isThought ? (part.text ?? '') : '')).join('');
  // Google's own models give calls no ids.
  const calls = parts
    .flatMap(({ functionCall }) => functionCall ?? [])
    .map(({ id, name = '', args }, index) => ({ id: id ?? String(index), name, args }));
  const known = geminiFinishes[finish ?? ''] ?? 'other';
  return {
    text: texts(false),
    reasoningText: texts(true),
    calls,
    finish: known === 'stop' && calls.length > 0 ? 'tool_calls' : known,
    cached,
    output,
  };
}
