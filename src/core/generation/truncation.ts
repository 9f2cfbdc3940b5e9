import type { Model } from '../../gen/tollgate/v1/catalog_pb.ts';
import type { Item } from '../../gen/tollgate/v1/content_pb.ts';
import { type GenerateRequest, Truncation } from '../../gen/tollgate/v1/request_pb.ts';
import { inputMost, tooLong } from '../../generation/check/check-length.ts';
import { type InputBounds, loadTokenizer, type Tokenizer } from '../../generation/tokens.ts';
import { type CountedItem, withoutOldest } from '../../generation/truncate.ts';
import { countInputInPieces } from '../../generation/count-input.ts';

/** Output tokens that are kept free where items have to go anyway, at most a quarter of the context. */
const answerTokens = 1024;

/**
 * The request with as many of its oldest items left out as it takes to fit the model's context, where it asks for that; else, or where
 * nothing helps, unchanged. A promise only if items have to be counted. Source: decisions §4, "truncation".
 */
export function truncated(
  request: GenerateRequest,
  { contextLength }: Model,
  { high }: InputBounds,
): GenerateRequest | Promise<GenerateRequest> {
  if (request.truncation !== Truncation.AUTO || contextLength === undefined) return request;
  return high <= contextLength ? request : truncatedTo(request, contextLength);
}

async function truncatedTo(request: GenerateRequest, contextLength: number): Promise<GenerateRequest> {
  const tokenizer = await loadTokenizer();
  const items = await countItems(request, tokenizer);
  const fixed = await countInputInPieces({ ...request, items: [] }, tokenizer);
  const surplus = items.reduce((sum, { tokens }) => sum + tokens, fixed) - contextLength;
  if (surplus <= 0) return request;
  const room = Math.min(request.maxOutputTokens ?? answerTokens, answerTokens, Math.floor(contextLength / 4));
  const kept = withoutOldest(items, surplus + room) ?? withoutOldest(items, surplus);
  return kept === undefined ? request : { ...request, items: kept };
}

/** Whether an input may be longer than the model's context, by the highest estimate. */
export function isNearLimit(request: GenerateRequest, model: Model, { high }: InputBounds): boolean {
  const most = inputMost(request, model);
  return most !== undefined && high > most;
}

/**
 * Refuses an input that is longer than the model's context by the tokenizer at hand: an upstream that takes it all the same cuts it in silence, or is asked in
 * vain. Throws `context_length_exceeded`. Source: decisions §4, "truncation".
 */
export async function checkCountedLength(request: GenerateRequest, model: Model): Promise<void> {
  const { id } = model;
  const contextLength = inputMost(request, model);
  if (contextLength === undefined) return;
  const tokens = await countInputInPieces(request, await loadTokenizer());
  if (tokens > contextLength) throw tooLong(request, { id, contextLength }, tokens);
}

/** Each item with its own tokens. */
async function countItems(request: GenerateRequest, tokenizer: Tokenizer): Promise<CountedItem[]> {
  const { outputFormat: _, instructions: __, ...rest } = request;
  const bare = (items: Item[]): GenerateRequest => ({ ...rest, tools: [], items });
  const frame = await countInputInPieces(bare([]), tokenizer);
  const counted: CountedItem[] = [];
  for (const item of request.items) {
    counted.push({ item, tokens: (await countInputInPieces(bare([item]), tokenizer)) - frame });
  }
  return counted;
}
