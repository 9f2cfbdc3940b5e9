import { GatewayError } from '../errors/gateway-error.ts';
import type { Item, Part } from '../gen/tollgate/v1/content_pb.ts';
import { Endpoint, type GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import { loadDecoder } from '../generation/embeddings/token-ids.ts';
import { partsText } from './prompt.ts';

/** The vocabulary in which the built-in models read token ids. */
const vocabulary = 'cl100k_base';

/**
 * Returns one request per prompt of a legacy completion, with token ids decoded; any other request as it is. Throws 400 for features that
 * the built-in models lack there.
 */
export async function splitPrompts(request: GenerateRequest): Promise<GenerateRequest[]> {
  if (request.endpoint !== Endpoint.COMPLETIONS) return [request];
  if (request.sampling?.logprobs === true) {
    throw new GatewayError('unsupported_feature', 'The built-in models have no log probabilities on this path.', {
      param: 'logprobs',
    });
  }
  const requests: GenerateRequest[] = [];
  for (const item of request.items) requests.push({ ...request, items: [await withTexts(item)] });
  return requests;
}

/** Returns the prompt with which an answer is to begin; undefined: with none. */
export function echoedPrompt({ echo, items }: GenerateRequest): string | undefined {
  if (echo !== true) return undefined;
  const parts = items.flatMap(({ content }) => (content.case === 'message' ? content.value.parts : []));
  return partsText(parts, '');
}

async function withTexts(item: Item): Promise<Item> {
  const { content } = item;
  if (content.case !== 'message' || content.value.parts.every(part => part.content.case !== 'tokens')) return item;
  const parts: Part[] = [];
  for (const part of content.value.parts) parts.push(await asText(part));
  return { ...item, content: { case: 'message', value: { ...content.value, parts } } };
}

async function asText(part: Part): Promise<Part> {
  if (part.content.case !== 'tokens') return part;
  const decode = await loadDecoder(vocabulary);
  const text = decode(part.content.value.ids);
  if (text === undefined) {
    throw new GatewayError('unsupported_feature', `The built-in models read token ids of ${vocabulary} only.`, {
      param: 'prompt',
    });
  }
  return {
    ...part,
    content: { case: 'text', value: { $typeName: 'tollgate.v1.TextPart', text, annotations: [], logprobs: [] } },
  };
}
