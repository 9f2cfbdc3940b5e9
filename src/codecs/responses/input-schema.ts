import * as z from 'zod';
import { isBase64 } from '../content.ts';
import { documented } from '../../lib/schema-notes.ts';
import {
  chosen,
  jsonObject,
  membersBy,
  object,
  oneBy,
  oneOf,
  someText,
  text,
  toolName,
  readType,
  unknownBy,
  type UnknownValue,
} from '../schema.ts';

/**
 * The schemas of the items of a Responses request. Unknown members stay in the checked value; null in an optional
 * field means that it was not sent. Sources: docs/interfaces/responses.md "Request", "Stream"; the lengths are those
 * of the Open Responses schema.
 */

/** Returns the number of code points: a surrogate pair is one character. */
function charactersIn(value: string): number {
  const pairs = value.match(/[\ud800-\udbff][\udc00-\udfff]/g)?.length ?? 0;
  return value.length - pairs;
}

/** A text with a maximum length in code points, as Responses counts it. */
export function limitedText(max: number): z.ZodString {
  const fits = (value: string): boolean =>
    value.length <= max || (value.length <= 2 * max && charactersIn(value) <= max);
  const limited = z.string('must be a string').refine(fits, `must have at most ${max} characters`);
  return documented(limited, { json: { maxLength: max } });
}

/** The longest text of an input. */
export const inputTextMax = 10_485_760;

const imageUrl = limitedText(20_971_520).refine(
  url => /^(https?:\/\/[^/]|data:)/i.test(url),
  'must be an http(s) address or a data URL',
);
const inputText = object({ type: z.literal('input_text'), text: limitedText(inputTextMax) });
const inputImage = object({
  type: z.literal('input_image'),
  image_url: imageUrl.nullish(),
  file_id: someText.nullish(),
  detail: oneOf(['low', 'high', 'auto', 'original']).nullish(),
});
const inputFile = object({
  type: z.literal('input_file'),
  filename: text.nullish(),
  file_data: limitedText(33_554_432).nullish(),
  file_url: someText.nullish(),
  file_id: someText.nullish(),
});
const inputAudio = object({
  type: z.literal('input_audio'),
  input_audio: object({ data: someText.refine(isBase64, 'must be base64'), format: someText }),
});
const inputVideo = object({ type: z.literal('input_video'), video_url: someText });

const userPart = oneBy('type', [inputText, inputImage, inputFile, inputAudio]);
const resultPart = oneBy('type', [inputText, inputImage, inputFile, inputVideo]);
const instructionPart = oneBy('type', [inputText]);
/** Members that the official client's helpers derive from an answer and send back: they add nothing. */
const readByClient = z.unknown().optional();
const outputText = object({
  type: z.literal('output_text'),
  text: limitedText(inputTextMax),
  annotations: z.array(object({ type: someText }), 'must be an array').nullish(),
  logprobs: z.array(jsonObject, 'must be an array').nullish(),
  parsed: readByClient,
});
const refusal = object({ type: z.literal('refusal'), refusal: limitedText(inputTextMax) });
const assistantPart = oneBy('type', [outputText, refusal]);
/** The members that each type of part has. */
export const partMembers = membersBy('type', [
  inputText,
  inputImage,
  inputFile,
  inputAudio,
  inputVideo,
  outputText,
  refusal,
]);

const textOrParts = <T extends z.ZodType>(part: T): z.ZodUnion<[z.ZodString, z.ZodArray<T>]> =>
  z.union([limitedText(inputTextMax), z.array(part, 'must be an array')], 'must be a string or an array of parts');

const itemStatus = oneOf(['in_progress', 'completed', 'incomplete']);
const shared = { id: text.nullish(), status: itemStatus.nullish() };
const message = { type: z.literal('message').nullish(), ...shared };
const messageItem = oneBy('role', [
  object({ ...message, role: z.literal('user'), content: textOrParts(userPart) }),
  object({ ...message, role: z.literal('system'), content: textOrParts(instructionPart) }),
  object({ ...message, role: z.literal('developer'), content: textOrParts(instructionPart) }),
  object({
    ...message,
    role: z.literal('assistant'),
    content: textOrParts(assistantPart),
    phase: oneOf(['commentary', 'final_answer']).nullish(),
  }),
]);

const callId = z
  .string('must be a string')
  .min(1, 'must have 1 to 64 characters')
  .max(64, 'must have 1 to 64 characters');
const output = textOrParts(resultPart);
/** The members that say what a tool's output belongs to: a call, or only a tool by its name. */
const spoken = { call_id: callId.nullish(), name: someText.nullish(), namespace: someText.nullish() };
const otherItems = [
  object({
    type: z.literal('reasoning'),
    ...shared,
    summary: z.array(
      oneBy('type', [object({ type: z.literal('summary_text'), text })]),
      'must be an array of summaries',
    ),
    content: z
      .array(oneBy('type', [object({ type: z.literal('reasoning_text'), text })]), 'must be an array')
      .nullish(),
    encrypted_content: text.nullish(),
  }),
  object({ type: z.literal('compaction'), ...shared, encrypted_content: limitedText(inputTextMax) }),
  object({
    type: z.literal('function_call'),
    ...shared,
    call_id: callId,
    name: toolName,
    namespace: someText.nullish(),
    arguments: text,
    parsed_arguments: readByClient,
  }),
  object({ type: z.literal('function_call_output'), ...shared, ...spoken, output }),
  object({
    type: z.literal('custom_tool_call'),
    ...shared,
    call_id: callId,
    name: toolName,
    namespace: someText.nullish(),
    input: text,
  }),
  object({ type: z.literal('custom_tool_call_output'), ...shared, ...spoken, output }),
] as const;
const otherItem = z.discriminatedUnion('type', otherItems, 'must be the type of an input item');
/** The members that an item of each of these types has. */
export const itemMembers = membersBy('type', otherItems);
const itemReference = object({ type: z.literal('item_reference').nullish(), id: someText });
const hostedItem = z.looseObject({ type: someText });
const unknownItem = unknownBy('type', [
  'message',
  'item_reference',
  ...otherItems.map(({ shape }) => shape.type.value),
]);

/**
 * The types of items that are carried unchanged: those of tools that the upstream itself runs, or that only OpenAI's service and clients know. Source:
 * docs/interfaces/responses.md "Stream".
 */
const hostedType =
  /^(web_search|file_search|computer|image_generation|code_interpreter|local_shell|shell|apply_patch|mcp|tool_search)_call(_output)?$|^(mcp_list_tools|mcp_approval_request|mcp_approval_response|tool_search_output|additional_tools|program|program_output)$/;

function chooseSchema(value: unknown): z.ZodType<InputItem> {
  const type = readType(value);
  const hasRole = typeof value === 'object' && value !== null && 'role' in value;
  if (type === 'item_reference' || (type == null && !hasRole)) return itemReference;
  if (typeof type !== 'string' || type === 'message') return messageItem;
  if (Object.hasOwn(itemMembers, type)) return otherItem;
  return hostedType.test(type) ? hostedItem : unknownItem;
}

type InputItem =
  | z.output<typeof messageItem>
  | z.output<typeof otherItem>
  | z.output<typeof itemReference>
  | z.output<typeof hostedItem>
  | UnknownValue;

/** One item. Its type, or its role if it has no type, decides which of the schemas it must match. */
export const inputItem = chosen<InputItem>(chooseSchema, [messageItem, ...otherItems, itemReference, hostedItem]);

/** A checked item. */
export type ResponsesItem = InputItem;
/** A checked message. */
export type MessageItem = Exclude<z.output<typeof messageItem>, UnknownValue>;
/** A checked item of a known type that is not a message. */
export type OtherItem = z.output<typeof otherItem>;
/** A checked part of any message or result. */
export type ResponsesPart = Exclude<
  z.output<typeof userPart> | z.output<typeof resultPart> | z.output<typeof assistantPart>,
  UnknownValue
>;
