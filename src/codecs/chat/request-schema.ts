import * as z from 'zod';
import { documented } from '../../lib/schema-notes.ts';
import {
  chosen,
  flag,
  integerIn,
  jsonObject,
  listOf,
  membersBy,
  metadata,
  numberIn,
  object,
  oneBy,
  oneOf,
  someText,
  text,
  textUpTo,
  toolName,
  typeOr,
  UnknownValue,
} from '../schema.ts';
import { tierWord } from '../service-tier.ts';

/**
 * The schema of a Chat Completions request. Unknown members stay in the checked value; null in an optional field
 * means that it was not sent.
 * Sources: docs/interfaces/chat-completions.md "Request", "Stream".
 */

const cacheControl = object({ type: text, ttl: text.nullish() }).nullish();
const cacheHints = { cache_control: cacheControl, prompt_cache_breakpoint: jsonObject.nullish() };

const textPart = object({ type: z.literal('text'), text, ...cacheHints });
/** A member that is neither checked nor sent to an upstream. */
const ignored = z.unknown().optional();
const refusalPart = object({
  type: z.literal('refusal'),
  refusal: text,
  cache_control: ignored,
  prompt_cache_breakpoint: ignored,
});
interface ImageUrl {
  readonly [member: string]: unknown;
  readonly url: string;
  readonly detail?: 'auto' | 'low' | 'high' | 'original' | UnknownValue | null | undefined;
}
const imageObject = object({ url: someText, detail: oneOf(['auto', 'low', 'high', 'original']).nullish() });
/** Clients also send the address alone. */
const imageText = someText.transform(url => ({ url }));
const imageUrl = chosen<ImageUrl>(
  value => (typeof value === 'string' ? imageText : imageObject),
  [imageObject, someText],
);
const imagePart = object({
  type: z.literal('image_url'),
  image_url: imageUrl,
  ...cacheHints,
});
const audioPart = object({
  type: z.literal('input_audio'),
  input_audio: object({ data: someText, format: someText }),
  ...cacheHints,
});
const filePart = object({
  type: z.literal('file'),
  file: object({ file_data: someText.nullish(), file_id: someText.nullish(), filename: text.nullish() }),
  ...cacheHints,
});

/** The members that each type of part has. */
export const partMembers = membersBy('type', [textPart, refusalPart, imagePart, audioPart, filePart]);

const userPart = oneBy('type', [textPart, imagePart, audioPart, filePart]);
const assistantPart = oneBy('type', [textPart, refusalPart]);
const onlyTextPart = oneBy('type', [textPart]);

const textOrParts = <T extends z.ZodType>(part: T, min = 1): z.ZodUnion<[z.ZodString, z.ZodArray<T>]> =>
  z.union([text, listOf(part, min)], 'must be a string or an array of parts');

const functionCall = object({ name: someText, arguments: text });
const toolCall = oneBy('type', [
  object({ type: z.literal('function'), id: someText, function: functionCall, extra_content: jsonObject.nullish() }),
  object({ type: z.literal('custom'), id: someText, custom: object({ name: someText, input: text }) }),
]);
/** One entry of `reasoning_details` (an extension of several providers): reasoning, a summary or a blob. */
const reasoningDetail = object({
  type: someText,
  text: text.nullish(),
  summary: text.nullish(),
  data: text.nullish(),
  signature: text.nullish(),
  format: text.nullish(),
  index: z.number('must be a number').nullish(),
});

const name = someText.nullish();
const messages = [
  object({ role: z.literal('system'), content: textOrParts(onlyTextPart), name }),
  object({ role: z.literal('developer'), content: textOrParts(onlyTextPart), name }),
  object({ role: z.literal('user'), content: textOrParts(userPart), name }),
  object({
    role: z.literal('assistant'),
    // Clients send an empty list beside calls.
    content: textOrParts(assistantPart, 0).nullish(),
    name,
    refusal: text.nullish(),
    tool_calls: listOf(toolCall, 0).nullish(),
    function_call: functionCall.nullish(),
    reasoning_content: text.nullish(),
    reasoning: text.nullish(),
    reasoning_details: z.array(reasoningDetail, 'must be an array').nullish(),
    // Members that the official client's helpers derive from an answer and send back: they add nothing.
    parsed: ignored,
  }),
  object({ role: z.literal('tool'), content: textOrParts(onlyTextPart), tool_call_id: someText.nullish() }),
  object({ role: z.literal('function'), content: text.nullable(), name: someText }),
] as const;
const message = oneBy('role', messages);
/** The members that the message of each role has. */
export const messageMembers = membersBy('role', messages);

const functionShape = { name: toolName, description: text.nullish(), parameters: jsonObject.nullish() };
const typedTool = oneBy('type', [
  object({
    type: z.literal('function'),
    function: object({ ...functionShape, strict: flag.nullish() }),
    ...cacheHints,
  }),
  object({
    type: z.literal('custom'),
    custom: object({ name: toolName, description: text.nullish(), format: jsonObject.nullish() }),
    ...cacheHints,
  }),
]);

const tool = typeOr('function', typedTool);

const toolReferences = [
  object({ type: z.literal('function'), function: object({ name: someText }) }),
  object({ type: z.literal('custom'), custom: object({ name: someText }) }),
] as const;
const toolReference = oneBy('type', toolReferences);
const allowedTools = object({ mode: oneOf(['auto', 'required']), tools: listOf(toolReference, 1) });
const toolChoice = z.union(
  [
    oneOf(['none', 'auto', 'required']),
    typeOr(
      'function',
      oneBy('type', [...toolReferences, object({ type: z.literal('allowed_tools'), allowed_tools: allowedTools })]),
    ),
  ],
  'must be "none", "auto", "required" or an object that names tools',
);

const responseFormat = oneBy('type', [
  object({ type: z.literal('text') }),
  object({ type: z.literal('json_object') }),
  object({
    type: z.literal('json_schema'),
    json_schema: object({
      name: toolName.nullish(),
      description: text.nullish(),
      schema: jsonObject.nullish(),
      strict: flag.nullish(),
    }),
  }),
]);

const biasKey = z.string().regex(/^\d+$/, 'must be the number of a token');
const biasByToken = z.record(biasKey, numberIn(-100, 100), 'must be an object of numbers from -100 to 100');
type LogitBias = z.output<typeof biasByToken> | UnknownValue;
/** Some servers also accept a list, whose entries this gateway does not know. */
const biasList = documented(
  z.unknown().transform(value => new UnknownValue(value, ['an object of numbers by token'])),
  { json: { type: 'array' } },
);
const logitBias = chosen<LogitBias>(value => (Array.isArray(value) ? biasList : biasByToken), [biasByToken, biasList]);

/** The body of a Chat Completions request. */
export const chatRequestSchema = object({
  model: someText,
  messages: listOf(message, 1),
  max_completion_tokens: integerIn(1).nullish(),
  max_tokens: integerIn(1).nullish(),
  temperature: numberIn(0, 2).nullish(),
  top_p: numberIn(0, 1).nullish(),
  frequency_penalty: numberIn(-2, 2).nullish(),
  presence_penalty: numberIn(-2, 2).nullish(),
  stop: z.union([someText, listOf(someText, 0, 4)], 'must be a string or an array of up to 4 strings').nullish(),
  n: integerIn(1, 128).nullish(),
  seed: integerIn(-(2 ** 63), 2 ** 63).nullish(),
  logprobs: flag.nullish(),
  top_logprobs: integerIn(0, 20).nullish(),
  logit_bias: logitBias.nullish(),
  response_format: responseFormat.nullish(),
  reasoning_effort: oneOf(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']).nullish(),
  verbosity: oneOf(['low', 'medium', 'high']).nullish(),
  tools: listOf(tool, 0).nullish(),
  tool_choice: toolChoice.nullish(),
  parallel_tool_calls: flag.nullish(),
  functions: listOf(object(functionShape), 0).nullish(),
  function_call: z
    .union([oneOf(['none', 'auto']), object({ name: someText })], 'must be "none", "auto" or an object with a name')
    .nullish(),
  stream: flag.nullish(),
  stream_options: object({ include_usage: flag.nullish() }).nullish(),
  service_tier: tierWord('auto', 'default', 'flex', 'priority'),
  prompt_cache_key: textUpTo(64).nullish(),
  metadata: metadata.nullish(),
  user: text.nullish(),
  safety_identifier: text.nullish(),
  store: flag.nullish(),
});

/** A checked Chat Completions request. */
export type ChatRequest = z.output<typeof chatRequestSchema>;
/** A checked message. */
export type ChatMessage = Exclude<ChatRequest['messages'][number], UnknownValue>;
/** A checked tool call of an assistant message. */
export type ChatToolCall = Exclude<z.output<typeof toolCall>, UnknownValue>;
/** A checked part of any message. */
export type ChatPart = Exclude<z.output<typeof userPart> | z.output<typeof assistantPart>, UnknownValue>;
/** A checked tool. */
export type ChatTool = Exclude<z.output<typeof tool>, UnknownValue>;
/** A checked tool choice. */
export type ChatToolChoice = Exclude<z.output<typeof toolChoice>, UnknownValue>;
/** A checked reference to a tool. */
export type ChatToolReference = Exclude<z.output<typeof toolReference>, UnknownValue>;
/** A checked form of the answer. */
export type ChatResponseFormat = Exclude<z.output<typeof responseFormat>, UnknownValue>;
