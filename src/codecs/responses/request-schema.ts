import * as z from 'zod';
import {
  chosen,
  exactlyOneOf,
  flag,
  integerIn,
  jsonObject,
  listOf,
  metadata,
  numberIn,
  object,
  oneBy,
  oneOf,
  someText,
  text,
  toolName,
  readType,
  type UnknownValue,
} from '../schema.ts';
import { tierWord } from '../service-tier.ts';
import { inputItem, inputTextMax, limitedText } from './input-schema.ts';

/**
 * The schema of a Responses request. Unknown members stay in the checked value; null in an optional field means that
 * it was not sent.
 * Sources: docs/interfaces/responses.md "Request", "Stream".
 */

const functionTool = object({
  type: z.literal('function'),
  name: toolName,
  description: text.nullish(),
  parameters: jsonObject.nullish(),
  strict: flag.nullish(),
  defer_loading: flag.nullish(),
});
const customTool = object({
  type: z.literal('custom'),
  name: toolName,
  description: text.nullish(),
  format: jsonObject.nullish(),
  defer_loading: flag.nullish(),
});
/** A group of tools that the client runs. */
const namespaceTool = object({
  type: z.literal('namespace'),
  name: toolName,
  description: text.nullish(),
  tools: z.array(oneBy('type', [functionTool, customTool]), 'must be an array'),
});
/** A tool that the upstream itself runs, or a client's tool of a type that only OpenAI's service and clients know. */
const hostedTool = z.looseObject({ type: someText });
type AnyTool =
  | z.output<typeof functionTool>
  | z.output<typeof customTool>
  | z.output<typeof namespaceTool>
  | z.output<typeof hostedTool>;
const tool = chosen<AnyTool>(
  value => {
    const type = readType(value);
    if (type === 'function') return functionTool;
    if (type === 'namespace') return namespaceTool;
    return type === 'custom' ? customTool : hostedTool;
  },
  [functionTool, customTool, namespaceTool, hostedTool],
);

/** A reference to a tool by its name. A tool that the upstream runs is named by its type alone. */
const namedChoice = object({ type: exactlyOneOf(['function', 'custom']), name: someText });
const hostedChoice = z.looseObject({ type: someText });
type Reference = z.output<typeof namedChoice> | z.output<typeof hostedChoice>;
const referenceSchema = (value: unknown): z.ZodType<Reference> => {
  const type = readType(value);
  return type === 'function' || type === 'custom' ? namedChoice : hostedChoice;
};
const allowedTools = object({
  type: z.literal('allowed_tools'),
  mode: oneOf(['none', 'auto', 'required']).nullish(),
  tools: listOf(chosen<Reference>(referenceSchema, [namedChoice, hostedChoice]), 1, 128),
});
const choiceMode = oneOf(['none', 'auto', 'required']);
const noChoice = z.never('must be "none", "auto", "required" or an object that names tools');
type AnyChoice = z.output<typeof choiceMode> | z.output<typeof allowedTools> | Reference;
const toolChoice = chosen<AnyChoice>(
  value => {
    if (typeof value === 'string') return choiceMode;
    if (typeof value !== 'object' || value === null) return noChoice;
    return readType(value) === 'allowed_tools' ? allowedTools : referenceSchema(value);
  },
  [choiceMode, allowedTools, namedChoice, hostedChoice],
);

const format = oneBy('type', [
  object({ type: z.literal('text') }),
  object({ type: z.literal('json_object') }),
  object({
    type: z.literal('json_schema'),
    name: toolName,
    description: text.nullish(),
    schema: jsonObject,
    strict: flag.nullish(),
  }),
]);

const input = z.union(
  [limitedText(inputTextMax), z.array(inputItem, 'must be an array')],
  'must be a string or an array of items',
);

const shape = {
  model: someText,
  instructions: text.nullish(),
  previous_response_id: text.nullish(),
  conversation: z
    .union([someText, object({ id: someText })], 'must be the id of a conversation, or an object with it')
    .nullish(),
  include: z
    .array(oneOf(['reasoning.encrypted_content', 'message.output_text.logprobs']), 'must be an array of strings')
    .nullish(),
  tools: z.array(tool, 'must be an array').nullish(),
  tool_choice: toolChoice.nullish(),
  text: object({ format: format.nullish(), verbosity: oneOf(['low', 'medium', 'high']).nullish() }).nullish(),
  temperature: numberIn(0, 2).nullish(),
  top_p: numberIn(0, 1).nullish(),
  presence_penalty: numberIn(-2, 2).nullish(),
  frequency_penalty: numberIn(-2, 2).nullish(),
  parallel_tool_calls: flag.nullish(),
  stream: flag.nullish(),
  stream_options: object({ include_obfuscation: flag.nullish() }).nullish(),
  background: flag.nullish(),
  max_output_tokens: integerIn(16).nullish(),
  max_tool_calls: integerIn(1).nullish(),
  reasoning: object({
    effort: oneOf(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']).nullish(),
    summary: oneOf(['auto', 'concise', 'detailed']).nullish(),
  }).nullish(),
  prompt_cache_key: limitedText(64).nullish(),
  safety_identifier: limitedText(64).nullish(),
  user: text.nullish(),
  metadata: metadata.nullish(),
  truncation: oneOf(['auto', 'disabled']).nullish(),
  store: flag.nullish(),
  service_tier: tierWord('auto', 'default', 'flex', 'priority'),
  top_logprobs: integerIn(0, 20).nullish(),
};

/** The body of a Responses request. */
export const responsesRequestSchema = object({ ...shape, input });

/** The body of a request whose input is only counted or compacted; `input` may be absent. */
export const continuingRequestSchema = object({ ...shape, input: input.nullish() });

/** A checked Responses request. */
export type ResponsesBody = z.output<typeof continuingRequestSchema>;
/** A checked tool. */
export type ResponsesTool = AnyTool;
/** A checked tool that the client runs and gives a schema of its arguments for. */
export type ResponsesFunctionTool = z.output<typeof functionTool>;
/** A checked tool that the client runs and that takes free text. */
export type ResponsesCustomTool = z.output<typeof customTool>;
/** A checked group of tools. */
export type ResponsesNamespace = z.output<typeof namespaceTool>;
/** A checked tool choice. */
export type ResponsesToolChoice = Exclude<AnyChoice, UnknownValue>;
/** A checked reference to a tool. */
export type ResponsesToolReference = Reference;
