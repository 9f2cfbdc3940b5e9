import { createHash } from 'node:crypto';
import { type ImagePart, type Item, type Part, Role, type ToolResult } from '../gen/tollgate/v1/content_pb.ts';
import type { GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import { inputSegments } from '../generation/input-segments.ts';
import type { Tokenizer } from '../generation/tokens.ts';
import { type Steering, splitSteering } from './steering.ts';

/** An image of the conversation. Error messages name it by its number. */
export interface PlacedImage {
  readonly image: ImagePart;
  /** The number of the image in the whole conversation, from 1. */
  readonly number: number;
  /** True if it is part of the new input, not of an earlier turn. */
  readonly isNew: boolean;
}

/** The parts of a request that the simulator reads. */
export interface Prompt {
  /** The last user text without steering lines; empty if there is none. */
  readonly text: string;
  /** The last steering line of the last user text. */
  readonly steeringLine: string | undefined;
  /** The tool results at the end of the conversation, which the answer is about. */
  readonly results: readonly ToolResult[];
  /** True if a tool's result follows the last user text. */
  readonly hasResultSince: boolean;
  /** True if the last user text is in the same message as tool results, which it then explains. */
  readonly explainsResult: boolean;
  /** The names of the tools that were called after the last user text. */
  readonly called: ReadonlySet<string>;
  readonly images: readonly PlacedImage[];
  /** Names of the files in the last user message. */
  readonly files: readonly string[];
  /** The output so far, if the request continues a paused answer. */
  readonly begun: string;
  /** A seed for random choices: the whole input except `begun`. */
  readonly seed: string;
}

/** A tool call without its id, which differs between choices. */
export interface CallDraft {
  readonly name: string;
  readonly isCustom: boolean;
  readonly arguments: string;
}

/** The sources of tool calls and JSON answers. */
export interface PlanBasis {
  readonly request: GenerateRequest;
  readonly prompt: Prompt;
  readonly steering: Steering;
}

/** Everything that the plan of one choice depends on. */
export interface PlanInput extends PlanBasis {
  /** The id of the built-in model. */
  readonly model: string;
  /** The tool calls, which are the same in every choice; empty if the answer is text. */
  readonly calls: readonly CallDraft[];
  /** The JSON text that every choice answers with; undefined if no JSON is requested, or the answer is something else. */
  readonly schemaText: string | undefined;
  /** An id that differs for each answer, even to equal requests. Ids of tool calls are made from it. */
  readonly answerId: string;
  /** Descriptions of the images; empty if there are none. */
  readonly imageDescriptions: readonly string[];
  readonly tokenizer: Tokenizer;
}

/** Returns the texts of parts, joined. */
export function joinTexts(parts: readonly Part[], separator: string): string {
  const texts: string[] = [];
  for (const { content } of parts) {
    if (content.case === 'text' || content.case === 'refusal') texts.push(content.value.text);
    else if (content.case === 'file' && content.value.source?.source.case === 'text') {
      texts.push(content.value.source.source.value);
    }
  }
  return texts.join(separator);
}

function isFromModel({ content }: Item): boolean {
  if (content.case === 'message') return content.value.role === Role.ASSISTANT;
  return content.case === 'reasoning' || content.case === 'toolCall' || content.case === 'serverTool';
}

function userText({ content }: Item): string | undefined {
  if (content.case !== 'message' || content.value.role !== Role.USER) return undefined;
  const textParts = content.value.parts.filter(part => part.content.case === 'text');
  return textParts.length === 0 ? undefined : joinTexts(textParts, '\n');
}

function isSameMessage(item: Item, other: Item | undefined): boolean {
  return item.turn !== 0 && item.turn === other?.turn;
}

function listParts({ content }: Item): readonly Part[] {
  return content.case === 'message' || content.case === 'toolResult' ? content.value.parts : [];
}

function listImages(items: readonly Item[], newFrom: number): PlacedImage[] {
  const images: PlacedImage[] = [];
  for (const [at, item] of items.entries()) {
    for (const { content } of listParts(item)) {
      if (content.case !== 'image') continue;
      images.push({ image: content.value, number: images.length + 1, isNew: at >= newFrom });
    }
  }
  return images;
}

function listFiles(item: Item | undefined): string[] {
  const names: string[] = [];
  for (const { content } of item === undefined ? [] : listParts(item)) {
    if (content.case !== 'file') continue;
    const { filename, title } = content.value;
    names.push([filename, title, 'a document'].find(name => name !== '') ?? '');
  }
  return names;
}

function begunText(items: readonly Item[]): string {
  const texts = items.flatMap(({ content }) =>
    content.case === 'message' ? [joinTexts(content.value.parts, '')] : [],
  );
  return texts.join('');
}

function makeSeed(request: GenerateRequest, items: readonly Item[]): string {
  const hash = createHash('sha256');
  for (const { kind, text } of inputSegments({ ...request, items: [...items] })) hash.update(`${kind}\n${text}\n`);
  const { seed, temperature } = request.sampling ?? {};
  return hash.update(`${seed ?? ''} ${temperature ?? ''}`).digest('hex');
}

/** Reads the prompt of a request. `steering` false: a steering line is ordinary text. */
export function readPrompt(request: GenerateRequest, steering: boolean): Prompt {
  const { items } = request;
  // If the conversation ends with output of the assistant, that is the beginning of the answer.
  const end = items.findLastIndex(item => !isFromModel(item)) + 1;
  const input = items.slice(0, end);
  const lastUser = input.findLastIndex(item => userText(item) !== undefined);
  const lastUserItem = items[lastUser];
  const lastUserText = lastUserItem === undefined ? '' : (userText(lastUserItem) ?? '');
  const { plain, line } = splitSteering(lastUserText, steering);
  const newFrom = input.findLastIndex(isFromModel) + 1;
  const firstResult = input.findLastIndex(item => item.content.case !== 'toolResult') + 1;
  const resultItems = input.slice(firstResult);
  return {
    text: plain.trim(),
    steeringLine: line,
    results: resultItems.flatMap(({ content }) => (content.case === 'toolResult' ? [content.value] : [])),
    hasResultSince: items.slice(lastUser + 1).some(item => item.content.case === 'toolResult'),
    explainsResult: input.some(item => item.content.case === 'toolResult' && isSameMessage(item, lastUserItem)),
    called: new Set(
      items.slice(lastUser + 1).flatMap(({ content }) => (content.case === 'toolCall' ? [content.value.name] : [])),
    ),
    images: listImages(items, newFrom),
    files: listFiles(lastUserItem),
    begun: begunText(items.slice(end)),
    seed: makeSeed(request, input),
  };
}
