import { createHash } from 'node:crypto';
import { type ImagePart, type Item, type Part, Role, type ToolResult } from '../gen/tollgate/v1/content_pb.ts';
import type { GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import { inputSegments } from '../generation/input-segments.ts';
import type { Tokenizer } from '../generation/tokens.ts';
import { type Steering, splitSteering } from './steering.ts';

/** A picture in the conversation and where it stands, for messages that have to name it. */
export interface PlacedImage {
  readonly image: ImagePart;
  /** From 1, over the whole conversation. */
  readonly number: number;
  /** It belongs to what is to be answered now, not to an earlier turn. */
  readonly isNew: boolean;
}

/** What the simulator reads out of a request. */
export interface Prompt {
  /** The last user text without steering lines; empty where nobody has said anything. */
  readonly text: string;
  /** The last steering line of the last user text. */
  readonly steeringLine: string | undefined;
  /** Results of tools that the answer is about: those at the end of the conversation. */
  readonly results: readonly ToolResult[];
  /** A tool's result stands after the last user text. */
  readonly hasResultSince: boolean;
  /** The names of the tools that were called after the last user text. */
  readonly called: ReadonlySet<string>;
  readonly images: readonly PlacedImage[];
  /** Names of the files that the last user message brings. */
  readonly files: readonly string[];
  /** What the assistant has already said of the answer that is asked for: a paused answer that goes on. */
  readonly begun: string;
  /** Distinguishes conversations: all of the input but what is already begun. */
  readonly seed: string;
}

/** What a choice's plan is made from. */
export interface PlanInput {
  readonly request: GenerateRequest;
  /** The simulator's name of the model. */
  readonly model: string;
  readonly prompt: Prompt;
  readonly steering: Steering;
  /** Tells answers apart, of equal requests too: ids of calls are made from it. */
  readonly answerId: string;
  /** What the pictures show; empty if there are none. */
  readonly sights: readonly string[];
  readonly tokenizer: Tokenizer;
}

/** The texts of parts, joined. */
export function partsText(parts: readonly Part[], separator: string): string {
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
  const said = content.value.parts.filter(part => part.content.case === 'text');
  return said.length === 0 ? undefined : partsText(said, '\n');
}

function partsOf({ content }: Item): readonly Part[] {
  return content.case === 'message' || content.case === 'toolResult' ? content.value.parts : [];
}

function imagesOf(items: readonly Item[], newFrom: number): PlacedImage[] {
  const images: PlacedImage[] = [];
  for (const [at, item] of items.entries()) {
    for (const { content } of partsOf(item)) {
      if (content.case !== 'image') continue;
      images.push({ image: content.value, number: images.length + 1, isNew: at >= newFrom });
    }
  }
  return images;
}

function filesOf(item: Item | undefined): string[] {
  const names: string[] = [];
  for (const { content } of item === undefined ? [] : partsOf(item)) {
    if (content.case !== 'file') continue;
    const { filename, title } = content.value;
    names.push([filename, title, 'a document'].find(name => name !== '') ?? '');
  }
  return names;
}

function begunText(items: readonly Item[]): string {
  const said = items.flatMap(({ content }) => (content.case === 'message' ? [partsText(content.value.parts, '')] : []));
  return said.join('');
}

function seedOf(request: GenerateRequest, items: readonly Item[]): string {
  const hash = createHash('sha256');
  for (const { kind, text } of inputSegments({ ...request, items: [...items] })) hash.update(`${kind}\n${text}\n`);
  const { seed, temperature } = request.sampling ?? {};
  return hash.update(`${seed ?? ''} ${temperature ?? ''}`).digest('hex');
}

/** Reads what is to be answered. `steering` false: a steering line is text like any other. */
export function readPrompt(request: GenerateRequest, steering: boolean): Prompt {
  const { items } = request;
  // What the model said last, after whatever it is to answer, is the beginning of the answer.
  const end = items.findLastIndex(item => !isFromModel(item)) + 1;
  const asked = items.slice(0, end);
  const lastUser = asked.findLastIndex(item => userText(item) !== undefined);
  const lastUserItem = items[lastUser];
  const said = lastUserItem === undefined ? '' : (userText(lastUserItem) ?? '');
  const { plain, line } = splitSteering(said, steering);
  const newFrom = asked.findLastIndex(isFromModel) + 1;
  const firstResult = asked.findLastIndex(item => item.content.case !== 'toolResult') + 1;
  const resultItems = asked.slice(firstResult);
  return {
    text: plain.trim(),
    steeringLine: line,
    results: resultItems.flatMap(({ content }) => (content.case === 'toolResult' ? [content.value] : [])),
    hasResultSince: items.slice(lastUser + 1).some(item => item.content.case === 'toolResult'),
    called: new Set(
      items.slice(lastUser + 1).flatMap(({ content }) => (content.case === 'toolCall' ? [content.value.name] : [])),
    ),
    images: imagesOf(items, newFrom),
    files: filesOf(lastUserItem),
    begun: begunText(items.slice(end)),
    seed: seedOf(request, asked),
  };
}
