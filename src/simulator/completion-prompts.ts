import { GatewayError } from '../errors/gateway-error.ts';
import type { Item, Part } from '../gen/tollgate/v1/content_pb.ts';
import { Endpoint, type GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import { loadDecoder } from '../generation/embeddings/token-ids.ts';
import { joinTexts } from './prompt.ts';

/** The vocabulary of the token ids that the built-in models accept. */
const vocabulary = 'cl100k_base';

/**
 * Returns one request per prompt of a legacy completion, with token ids decoded to text; any other request unchanged. Throws
 * `unsupported_feature` for log probabilities on that path, and for token ids that the vocabulary lacks.
 */
export async function splitPrompts(request: GenerateRequest): Promise<GenerateRequest[]> {
  if (request.endpoint !== Endpoint.COMPLETIONS) return [request];
  if (request.sampling?.logprobs === true) {
    throw new GatewayError('unsupported_feature', 'The built-in models have no log probabilities on this path.', {
      param: 'logprobs',
    });
  }
  const requests: GenerateRequest[] = [];
  for (const item of request.items) requests.push({ ...request, items: [await decodeTokens(item)] });
  return requests;
}

/** Returns the prompt if the answer must begin with it (`echo`), else undefined. */
export function echoedPrompt({ echo, items }: GenerateRequest): string | undefined {
  if (echo !== true) return undefined;
  const parts = items.flatMap(({ content }) => (content.case === 'message' ? content.value.parts : []));
  return joinTexts(parts, '');
}

async function decodeTokens(item: Item): Promise<Item> {
  const { content } = item;
  if (content.case !== 'message' || content.value.parts.every(part => part.content.case !== 'tokens')) return item;
  const parts: Part[] = [];
  for (const part of content.value.parts) parts.push(await toTextPart(part));
  return { ...item, content: { case: 'message', value: { ...content.value, parts } } };
}

async function toTextPart(part: Part): Promise<Part> {
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
