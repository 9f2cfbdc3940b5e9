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
  typeOf,
} from '../schema.ts';

/**
 * What the body of a Messages request looks like. Unknown members stay in the checked value; null in an optional field means that it was not sent.
 * Sources: service.md (POST /v1/messages), decisions §4, wire.md B3.
 */

const cacheControl = object({
  type: z.literal('ephemeral', 'must be "ephemeral"'),
  ttl: oneOf(['5m', '1h']).nullish(),
});
const cached = { cache_control: cacheControl.nullish() };

const imageTypes = ['image/jpeg', 'image/png', 'image/gif', 'image/webp'] as const;
const urlSource = object({ type: z.literal('url'), url: someText });
const fileSource = object({ type: z.literal('file'), file_id: someText });
const imageSource = oneBy('type', [
  object({ type: z.literal('base64'), media_type: oneOf(imageTypes), data: someText }),
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
  content: listOf(object({ type: z.literal('text', 'must be "text"'), text }), 1),
  citations: z.unknown().optional(),
  ...cached,
});
const documentSource = oneBy('type', [
  object({
    type: z.literal('base64'),
    media_type: z.literal('application/pdf', 'must be "application/pdf"'),
    data: someText,
  }),
  object({
    type: z.literal('text'),
    media_type: z.literal('text/plain', 'must be "text/plain"').nullish(),
    data: text,
  }),
  object({
    type: z.literal('content'),
    content: z.union(
      [text, listOf(z.discriminatedUnion('type', [textBlock, imageBlock]), 1)],
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

const resultBlock = oneBy('type', [textBlock, imageBlock, searchResultBlock, documentBlock]);
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
  toolResultBlock,
  toolUseBlock,
  thinkingBlock,
  redactedBlock,
]);

const known = {
  user: new Set(['text', 'image', 'document', 'search_result', 'tool_result']),
  assistant: new Set(['text', 'tool_use', 'thinking', 'redacted_thinking', 'image', 'document', 'search_result']),
};
/** Blocks of the upstream's own tools: `server_tool_use`, `web_search_tool_result`, `mcp_tool_use`, `container_upload`, … They are carried as they came. */
const serverBlockName = /^(server_tool_use|[a-z_]+_tool_(use|result)|container_upload|compaction)$/;
const serverBlock = z.looseObject({
  type: z.string('must be a string').regex(serverBlockName, 'must be the type of a content block'),
});

const blocksOf = <T extends z.ZodType>(block: T): z.ZodUnion<[z.ZodString, z.ZodArray<T>]> =>
  z.union([text, z.array(block, 'must be an array')], 'must be a string or an array of blocks');

const userKnown = oneBy('type', [textBlock, imageBlock, documentBlock, searchResultBlock, toolResultBlock]);
const assistantKnown = z.discriminatedUnion(
  'type',
  [textBlock, toolUseBlock, thinkingBlock, redactedBlock, imageBlock, documentBlock, searchResultBlock],
  'must be one of "text", "tool_use", "thinking", "redacted_thinking"',
);

type ServerBlock = z.output<typeof serverBlock>;

/** A block of a message: one of a type with a schema of its own (`known`), or of the upstream's own tools. */
function blockOf<T extends z.ZodType>(own: ReadonlySet<string>, known: T): z.ZodType<z.output<T> | ServerBlock> {
  return chosen<z.output<T> | ServerBlock>(value => {
    const type = typeOf(value);
    const isKnown = typeof type !== 'string' || own.has(type) || !serverBlockName.test(type);
    return (isKnown ? known : serverBlock) as z.ZodType<z.output<T> | ServerBlock>;
  });
}

const message = oneBy('role', [
  object({ role: z.literal('user'), content: blocksOf(blockOf(known.user, userKnown)) }),
  object({ role: z.literal('assistant'), content: blocksOf(blockOf(known.assistant, assistantKnown)) }),
]);

const toolName = z
  .string('must be a string')
  .regex(/^[a-zA-Z0-9_-]{1,128}$/, 'must be 1 to 128 letters, digits, underscores or dashes');
const ownTool = object({
  type: z.literal('custom').nullish(),
  name: toolName,
  description: text.nullish(),
  input_schema: jsonObject,
  strict: flag.nullish(),
  ...cached,
});
const hostedTool = z.looseObject({ type: someText, ...cached });
const tool = chosen<z.output<typeof ownTool> | z.output<typeof hostedTool>>(value => {
  const type = typeOf(value);
  return typeof type === 'string' && type !== 'custom' ? hostedTool : ownTool;
});

const parallel = { disable_parallel_tool_use: flag.nullish() };
const toolChoice = oneBy('type', [
  object({ type: z.literal('auto'), ...parallel }),
  object({ type: z.literal('any'), ...parallel }),
  object({ type: z.literal('tool'), name: someText, ...parallel }),
  object({ type: z.literal('none') }),
]);

const display = { display: oneOf(['summarized', 'omitted']).nullish() };
const thinking = z.discriminatedUnion(
  'type',
  [
    object({ type: z.literal('enabled'), budget_tokens: integerIn(1_024), ...display }),
    object({ type: z.literal('disabled') }),
    object({ type: z.literal('adaptive'), ...display }),
    object({ type: z.literal('between_tools'), ...display }),
  ],
  'must be one of "enabled", "disabled", "adaptive"',
);

const outputConfig = object({
  effort: oneOf(['low', 'medium', 'high', 'xhigh', 'max']).nullish(),
  format: object({ type: z.literal('json_schema', 'must be "json_schema"'), schema: jsonObject }).nullish(),
});

/** The members that counting tokens takes too. */
const countShape = {
  model: someText,
  messages: listOf(message, 1),
  system: z
    .union([text, z.array(textBlock, 'must be an array')], 'must be a string or an array of text blocks')
    .nullish(),
  tools: z.array(tool, 'must be an array').nullish(),
  tool_choice: toolChoice.nullish(),
  thinking: thinking.nullish(),
  output_config: outputConfig.nullish(),
  cache_control: cacheControl.nullish(),
};

const rest = {
  temperature: numberIn(0, 1).nullish(),
  top_p: numberIn(0, 1).nullish(),
  top_k: integerIn(0).nullish(),
  stop_sequences: z.array(someText, 'must be an array of strings').nullish(),
  stream: flag.nullish(),
  metadata: object({ user_id: text.nullish() }).nullish(),
  service_tier: oneOf(['auto', 'standard_only', 'default', 'standard', 'flex', 'priority']).nullish(),
};

/** The body of a Messages request. */
export const messagesRequestSchema = object({ ...countShape, max_tokens: integerIn(1), ...rest });

/** The body of a request to count tokens: nothing is generated, so that no limit is needed. */
export const countRequestSchema = object({ ...countShape, max_tokens: integerIn(1).nullish(), ...rest });

/** A checked Messages request. */
export type MessagesRequest = z.output<typeof countRequestSchema>;
/** A checked message. */
export type MessagesMessage = MessagesRequest['messages'][number];
/** A checked block with a schema of its own. */
export type KnownBlock = z.output<typeof userKnown> | z.output<typeof assistantKnown>;
/** A checked block of a tool's result. */
export type ResultBlock = z.output<typeof resultBlock>;
/** A checked text block. */
export type TextBlock = z.output<typeof textBlock>;
/** A checked document block. */
export type DocumentBlock = z.output<typeof documentBlock>;
/** A checked image block. */
export type ImageBlock = z.output<typeof imageBlock>;
/** A checked tool that the client runs. */
export type OwnTool = z.output<typeof ownTool>;
/** A checked tool. */
export type MessagesTool = NonNullable<MessagesRequest['tools']>[number];
/** A checked tool choice. */
export type MessagesToolChoice = z.output<typeof toolChoice>;
