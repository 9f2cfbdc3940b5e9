import type { SourceRequest } from '../../gen/tollgate/v1/request_pb.ts';
import type { EncodeInput, Json, JsonObject } from '../codec.ts';
import type { Drops } from '../drops.ts';
import { listIn, objectIn, textIn } from '../json.ts';
import { patchServiceTier } from '../service-tier.ts';
import { type SentBody, sentBody } from '../sent-body.ts';
import { type ModelTraits, traitsOf } from './model-traits.ts';
import { blockMembers, messagesRequestSchema } from './request-schema.ts';
import { isForeign } from './thought-blobs.ts';

const knownMembers = new Set(Object.keys(messagesRequestSchema.shape));

/** Below it a thinking budget is refused (wire.md B3). */
export const thinkingBudgetMin = 1_024;

/**
 * A Messages client's own JSON for an upstream of the protocol: the model, the limit, the tier and the form of the answer are the route's, all else arrives
 * as it was sent. Nulls count as not sent; thoughts that another protocol sealed are dropped and listed, since this upstream would refuse them.
 */
export function patchedRequest(input: EncodeInput, source: SourceRequest, drops: Drops): SentBody {
  const { request, model, maxOutputTokens, stream } = input;
  const sent = sentBody(source);
  const { body } = sent;
  for (const [name, value] of Object.entries(body)) if (value === null && knownMembers.has(name)) delete body[name];
  body['model'] = model;
  if (maxOutputTokens !== undefined) body['max_tokens'] = maxOutputTokens;
  patchFormat(body);
  patchRefusedPairs(body, traitsOf(model), drops);
  patchThinking(body, drops);
  patchServiceTier(body, request.serviceTier, ['auto', 'standard_only']);
  body['messages'] = listIn(body['messages']).map(message => patchedMessage(message, drops));
  if (stream) body['stream'] = true;
  else delete body['stream'];
  return sent;
}

/** The older name of the form of an answer. */
function patchFormat(body: JsonObject): void {
  const format = body['output_format'];
  if (format === undefined) return;
  delete body['output_format'];
  const config = objectIn(body['output_config']) ?? {};
  body['output_config'] = { ...config, format: config['format'] ?? format };
}

/** Pairs of settings that the model refuses: one of the two goes. Source: decisions §4 (2026-11-22). */
function patchRefusedPairs(body: JsonObject, traits: ModelTraits, drops: Drops): void {
  const { temperature, top_p: topP } = body;
  if (!traits.samplingPair && typeof temperature === 'number' && typeof topP === 'number') {
    delete body['top_p'];
    drops.add('top_p');
  }
  const isForced = ['any', 'tool'].includes(textIn(objectIn(body['tool_choice'])?.['type']));
  const thinking = textIn(objectIn(body['thinking'])?.['type']);
  if (!isForced || thinking === '' || thinking === 'disabled') return;
  if (traits.forcedWhileThinking || !traits.forcedToolChoice) return;
  delete body['thinking'];
  drops.add('thinking');
}

/** A budget must stay below the limit, which the model may have lowered. */
function patchThinking(body: JsonObject, drops: Drops): void {
  const thinking = objectIn(body['thinking']);
  const limit = body['max_tokens'];
  const budget = thinking?.['budget_tokens'];
  if (typeof limit !== 'number' || typeof budget !== 'number' || budget < limit) return;
  if (limit > thinkingBudgetMin) {
    body['thinking'] = { ...thinking, budget_tokens: limit - 1 };
    return;
  }
  delete body['thinking'];
  drops.add('thinking');
}

function patchedMessage(value: Json, drops: Drops): Json {
  const message = objectIn(value);
  if (message === undefined || !Array.isArray(message['content'])) return value;
  const content = message['content'].filter(block => {
    const foreign = isForeignThought(objectIn(block));
    if (foreign) drops.add('thinking');
    return !foreign;
  });
  return { ...message, content: content.map(withoutNulls) };
}

function isForeignThought(block: JsonObject | undefined): boolean {
  if (block?.['type'] !== 'thinking') return false;
  const signature = textIn(block['signature']);
  return signature === '' || isForeign(signature);
}

/** Members that clients echo from answers (`citations: null`, `parsed_output`) are refused (case RE-20). What is unknown stays, null or not. */
function withoutNulls(value: Json): Json {
  const block = objectIn(value);
  const type = textIn(block?.['type']);
  if (block === undefined || !isBlockType(type)) return value;
  const known = blockMembers[type];
  const kept = Object.entries(block).filter(
    ([name, member]) => (member !== null || !known.has(name)) && name !== 'parsed_output',
  );
  return kept.length === Object.keys(block).length ? value : Object.fromEntries(kept);
}

function isBlockType(type: string): type is keyof typeof blockMembers {
  return Object.hasOwn(blockMembers, type);
}
