import type { Model } from '../../gen/tollgate/v1/catalog_pb.ts';
import type { Item } from '../../gen/tollgate/v1/content_pb.ts';
import { type GenerateRequest, Truncation } from '../../gen/tollgate/v1/request_pb.ts';
import { inputTokensMax, tooLong } from '../../generation/check/check-length.ts';
import { type InputBounds, loadTokenizer, type Tokenizer } from '../../generation/tokens.ts';
import { type CountedItem, withoutOldest } from '../../generation/truncate.ts';
import { countInputInPieces } from '../../generation/count-input.ts';

/** How many tokens are left free for the output if items have to be dropped; at most a quarter of the context. */
const answerTokens = 1024;

/**
 * Returns the request without as many of its oldest items as must be dropped for it to fit the model's context. Returns it unchanged if it does not ask for truncation, or if dropping items does not help. Returns a promise only if items have to be counted. Source: docs/interfaces/responses.md "Truncation".
 */
export function truncateToContext(
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

/** Returns whether the upper bound of an input is longer than the model's context. */
export function isNearLimit(request: GenerateRequest, model: Model, { high }: InputBounds): boolean {
  const most = inputTokensMax(request, model);
  return most !== undefined && high > most;
}

/**
 * Throws `context_length_exceeded` if the input is longer than the model's context as the available tokenizer counts it. Otherwise an upstream would refuse it, or cut it silently. Source: docs/interfaces/responses.md "Truncation".
 */
export async function checkCountedLength(request: GenerateRequest, model: Model): Promise<void> {
  const { id } = model;
  const contextLength = inputTokensMax(request, model);
  if (contextLength === undefined) return;
  const tokens = await countInputInPieces(request, await loadTokenizer());
  if (tokens > contextLength) throw tooLong(request, { id, contextLength }, tokens);
}

/** Returns each item with its number of tokens. */
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
