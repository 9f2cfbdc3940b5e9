import * as z from 'zod';
import { type Item, type Part, Protocol, Role } from '../../gen/tollgate/v1/content_pb.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import type { DecodedRequest, ReceivedRequest } from '../codec.ts';
import { makeItem, messageContent, makePart, makeRequest, textContent } from '../content.ts';
import { defined } from '../json.ts';
import * as decode from '../request.ts';
import {
  flag,
  integerIn,
  invalidField,
  listOf,
  members,
  numberIn,
  object,
  parseBody,
  someText,
  text,
  UnknownMembers,
} from '../schema.ts';
import { documented } from '../../lib/schema-notes.ts';
import { decodeServiceTier, tierWord } from '../service-tier.ts';

/**
 * Decodes requests of Completions, OpenAI's interface before Chat. Null in an optional field means that it was not sent.
 * Source: OpenAI API reference, "Create completion".
 */

const tokenIds = { type: 'array', minItems: 1, items: { type: 'integer', minimum: 0 } };
const promptJson = {
  anyOf: [
    { type: 'string' },
    { type: 'array', minItems: 1, items: { anyOf: [{ type: 'string' }, { type: 'integer', minimum: 0 }, tokenIds] } },
  ],
};
const choicesMax = 128;
const stopMax = 4;

/** The body of a request. Parsing keeps unknown members. */
export const completionsRequestSchema = object({
  model: someText,
  prompt: documented(z.unknown().optional(), { json: promptJson }),
  suffix: text.nullish(),
  max_tokens: integerIn(0).nullish(),
  temperature: numberIn(0, 2).nullish(),
  top_p: numberIn(0, 1).nullish(),
  n: integerIn(1, choicesMax).nullish(),
  best_of: integerIn(1).nullish(),
  stream: flag.nullish(),
  stream_options: object({ include_usage: flag.nullish() }).nullish(),
  logprobs: integerIn(0).nullish(),
  echo: flag.nullish(),
  stop: z.union([text, listOf(text, 0, stopMax)], 'must be a string or an array of strings').nullish(),
  presence_penalty: numberIn(-2, 2).nullish(),
  frequency_penalty: numberIn(-2, 2).nullish(),
  logit_bias: z.unknown().optional(),
  seed: integerIn(-(2 ** 63), 2 ** 63).nullish(),
  user: text.nullish(),
  service_tier: tierWord('auto', 'default', 'flex', 'priority'),
});
const known = members(...Object.keys(completionsRequestSchema.shape));
const knownStreamOptionsMembers = members('include_usage', 'include_obfuscation');
const promptAllowed = 'must be a string, an array of strings, an array of token ids, or an array of such arrays';
const tokenMax = 2 ** 32 - 1;

/** Decodes the body of a Completions request: each prompt is a message. Throws `validation_error` that names the field. */
export function decodeRequest(received: ReceivedRequest): DecodedRequest {
  const body = parseBody(completionsRequestSchema, received.body);
  const { n, stop, echo } = body;
  const items = decodePrompts(body.prompt);
  const candidates = items.length * (n ?? 1);
  if (candidates > choicesMax) {
    throw invalidField('prompt', `has too many entries: with \`n\` they make more than ${choicesMax} choices`);
  }
  if (body.max_tokens === 0 && echo !== true) {
    throw invalidField('max_tokens', 'must be at least 1, or 0 with `echo`');
  }
  const unknown = new UnknownMembers(Protocol.COMPLETIONS);
  unknown.collectFromBody(body, known);
  unknown.list(body.stream_options, knownStreamOptionsMembers, 'stream_options');
  const stream = body.stream === true;
  const { logprobs, logit_bias: _, ...sampled } = body;
  const request = makeRequest({
    model: body.model,
    endpoint: Endpoint.COMPLETIONS,
    delivery: decode.delivery(stream),
    items,
    stop: typeof stop === 'string' ? [stop] : (stop ?? []),
    ...decodeServiceTier(body.service_tier),
    ...decode.sampling({ ...sampled, logprobs: logprobs == null ? undefined : true }),
    ...defined({
      // The text after the completion is input, like the prompt.
      instructions: body.suffix || undefined,
      maxOutputTokens: decode.clampToUint32(body.max_tokens),
      user: body.user ?? undefined,
      candidates: candidates === 1 ? undefined : candidates,
      echo: echo === true ? true : undefined,
    }),
  });
  request.source = decode.sourceRequest(Protocol.COMPLETIONS, { raw: received.raw, body, unknown });
  return { request, stream, includeUsage: body.stream_options?.include_usage === true };
}

function decodePrompts(prompt: unknown): Item[] {
  if (prompt == null) throw invalidField('prompt', `is required and ${promptAllowed}`);
  if (typeof prompt === 'string') return [promptItem(textContent(prompt))];
  if (!Array.isArray(prompt)) throw invalidField('prompt', promptAllowed);
  const list: readonly unknown[] = prompt;
  if (list.length === 0) throw invalidField('prompt', 'must not be empty');
  if (typeof list[0] === 'number') return [promptItem(tokensContent(list, 'prompt'))];
  return list.map((entry, index) => {
    const name = `prompt[${index}]`;
    if (typeof entry === 'string') return promptItem(textContent(entry));
    if (Array.isArray(entry)) return promptItem(tokensContent(entry, name));
    throw invalidField(name, 'must be a string or an array of token ids');
  });
}

function promptItem(content: Part['content']): Item {
  return makeItem(messageContent(Role.USER, [makePart(content)]), 0);
}

function tokensContent(values: readonly unknown[], name: string): Part['content'] {
  if (values.length === 0) throw invalidField(name, 'must not be empty');
  for (const value of values) {
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value > tokenMax) {
      throw invalidField(name, `must hold token ids only, integers from 0 to ${tokenMax}`);
    }
  }
  return { case: 'tokens', value: { $typeName: 'tollgate.v1.TokensPart', ids: values as number[] } };
}
