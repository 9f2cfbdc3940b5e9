import * as z from 'zod';
import {
  chosen,
  flag,
  integerIn,
  jsonObject,
  listOf,
  membersBy,
  numberIn,
  object,
  oneBy,
  oneOf,
  someText,
  text,
  readType,
  type UnknownValue,
} from '../schema.ts';
import { tierWord } from '../service-tier.ts';

/**
 * The schema of a Messages request. Unknown members stay in the checked value; null in an optional field means that
 * it was not sent.
 * Sources: docs/interfaces/messages.md "Request", "Stream".
 */

const cacheControl = object({ type: oneOf(['ephemeral']), ttl: oneOf(['5m', '30m', '1h', '12h']).nullish() });
const cached = { cache_control: cacheControl.nullish() };

const urlSource = object({ type: z.literal('url'), url: someText });
const fileSource = object({ type: z.literal('file'), file_id: someText });
const imageSource = oneBy('type', [
  object({ type: z.literal('base64'), media_type: someText, data: someText }),
  urlSource,
  fileSource,
]);

const citations = z.array(jsonObject, 'must be an array');
const textBlock = object({ type: z.literal('text'), text, citations: citations.nullish(), ...cached });
const imageBlock = object({ type: z.literal('image'), source: imageSource, ...cached });
const searchResultBlock = object({
  type: z.literal('search_result'),
  source: text,
  title: text,
  content: listOf(oneBy('type', [object({ type: z.literal('text'), text })]), 1),
  citations: z.unknown().optional(),
  ...cached,
});
const documentSource = oneBy('type', [
  object({
    type: z.literal('base64'),
    media_type: someText,
    data: someText,
  }),
  object({
    type: z.literal('text'),
    media_type: text.nullish(),
    data: text,
  }),
  object({
    type: z.literal('content'),
    content: z.union(
      [text, listOf(oneBy('type', [textBlock, imageBlock]), 1)],
      'must be a string or an array of blocks',
    ),
  }),
  urlSource,
  fileSource,
]);
const documentBlock = object({
  type: z.literal('document'),
  source: documentSource,
  title: text.nullish(),
  context: text.nullish(),
  citations: object({ enabled: flag.nullish() }).nullish(),
  ...cached,
});

/** A reference to a tool that a tool search found. */
const toolReferenceBlock = object({ type: z.literal('tool_reference'), tool_name: someText, ...cached });

const resultBlock = oneBy('type', [textBlock, imageBlock, searchResultBlock, documentBlock, toolReferenceBlock]);
const toolResultBlock = object({
  type: z.literal('tool_result'),
  tool_use_id: someText,
  content: z
    .union([text, z.array(resultBlock, 'must be an array')], 'must be a string or an array of blocks')
    .nullish(),
  is_error: flag.nullish(),
  ...cached,
});
const toolUseBlock = object({
  type: z.literal('tool_use'),
  id: someText,
  name: someText,
  input: jsonObject,
  ...cached,
});
const thinkingBlock = object({ type: z.literal('thinking'), thinking: text, signature: text.nullish() });
const redactedBlock = object({ type: z.literal('redacted_thinking'), data: someText });

/** The members that each type of block has. */
export const blockMembers = membersBy('type', [
  textBlock,
  imageBlock,
  documentBlock,
  searchResultBlock,
  toolReferenceBlock,
  toolResultBlock,
  toolUseBlock,
  thinkingBlock,
  redactedBlock,
]);

const textOrBlocks = <T extends z.ZodType>(block: T): z.ZodUnion<[z.ZodString, z.ZodArray<T>]> =>
  z.union([text, z.array(block, 'must be an array')], 'must be a string or an array of blocks');

const userBlock = oneBy('type', [textBlock, imageBlock, documentBlock, searchResultBlock, toolResultBlock]);
const assistantBlock = oneBy('type', [
  textBlock,
  toolUseBlock,
  thinkingBlock,
  redactedBlock,
  imageBlock,
  documentBlock,
  searchResultBlock,
]);
const systemBlock = oneBy('type', [textBlock]);

const message = oneBy(
  'role',
  [
    object({ role: z.literal('user'), content: textOrBlocks(userBlock) }),
    object({ role: z.literal('assistant'), content: textOrBlocks(assistantBlock) }),
    object({ role: z.literal('system'), content: textOrBlocks(systemBlock) }),
  ],
  // The names that Anthropic's error message lists, which clients look for.
  ['user', 'assistant'],
);

const toolName = z
  .string('must be a string')
  .regex(/^[a-zA-Z0-9_-]{1,128}$/, 'must be 1 to 128 letters, digits, underscores or dashes');
const ownTool = object({
  type: z.literal('custom').nullish(),
  name: toolName,
  description: text.nullish(),
  input_schema: jsonObject,
  strict: flag.nullish(),
  defer_loading: flag.nullish(),
  ...cached,
});
const hostedTool = z.looseObject({ type: someText, ...cached });
const tool = chosen<z.output<typeof ownTool> | z.output<typeof hostedTool>>(
  value => {
    const type = readType(value);
    return typeof type === 'string' && type !== 'custom' ? hostedTool : ownTool;
  },
  [ownTool, hostedTool],
);

const parallel = { disable_parallel_tool_use: flag.nullish() };
const toolChoice = oneBy('type', [
  object({ type: z.literal('auto'), ...parallel }),
  object({ type: z.literal('any'), ...parallel }),
  object({ type: z.literal('tool'), name: someText, ...parallel }),
  object({ type: z.literal('none') }),
]);

const display = { display: oneOf(['summarized', 'omitted', 'updates']).nullish() };
const thinking = oneBy('type', [
  object({ type: z.literal('enabled'), budget_tokens: integerIn(1_024), ...display }),
  object({ type: z.literal('disabled') }),
  object({ type: z.literal('adaptive'), ...display }),
  object({ type: z.literal('between_tools'), ...display }),
]);

const outputFormat = oneBy('type', [object({ type: z.literal('json_schema'), schema: jsonObject })]);
const outputConfig = object({
  effort: oneOf(['low', 'medium', 'high', 'xhigh', 'max']).nullish(),
  format: outputFormat.nullish(),
});

/** The members that a request to count tokens also has. */
const countShape = {
  model: someText,
  messages: listOf(message, 1),
  system: z
    .union([text, z.array(systemBlock, 'must be an array')], 'must be a string or an array of text blocks')
    .nullish(),
  tools: z.array(tool, 'must be an array').nullish(),
  tool_choice: toolChoice.nullish(),
  thinking: thinking.nullish(),
  output_config: outputConfig.nullish(),
  // The older name of `output_config.format`.
  output_format: outputFormat.nullish(),
  cache_control: cacheControl.nullish(),
};

const rest = {
  temperature: numberIn(0, 1).nullish(),
  top_p: numberIn(0, 1).nullish(),
  top_k: integerIn(0).nullish(),
  stop_sequences: z.array(someText, 'must be an array of strings').nullish(),
  stream: flag.nullish(),
  metadata: object({ user_id: text.nullish() }).nullish(),
  service_tier: tierWord('auto', 'standard_only', 'default', 'standard', 'flex', 'priority'),
};

/** The body of a Messages request. */
export const messagesRequestSchema = object({ ...countShape, max_tokens: integerIn(1), ...rest });

/** The body of a request to count tokens; it needs no output limit, because nothing is generated. */
export const countRequestSchema = object({ ...countShape, max_tokens: integerIn(1).nullish(), ...rest });

/** A checked Messages request. */
export type MessagesRequest = z.output<typeof countRequestSchema>;
/** A checked message. */
export type MessagesMessage = Exclude<MessagesRequest['messages'][number], UnknownValue>;
/** A checked block of a known type. */
export type KnownBlock = Exclude<z.output<typeof userBlock> | z.output<typeof assistantBlock>, UnknownValue>;
/** A checked block of a tool's result. */
export type ResultBlock = Exclude<z.output<typeof resultBlock>, UnknownValue>;
/** A checked text block. */
export type TextBlock = z.output<typeof textBlock>;
/** A checked document block. */
export type DocumentBlock = z.output<typeof documentBlock>;
/** A checked image block. */
export type ImageBlock = z.output<typeof imageBlock>;
/** A checked tool that the client runs. */
export type ClientTool = z.output<typeof ownTool>;
/** A checked tool. */
export type MessagesTool = NonNullable<MessagesRequest['tools']>[number];
/** A checked tool choice. */
export type MessagesToolChoice = Exclude<z.output<typeof toolChoice>, UnknownValue>;
