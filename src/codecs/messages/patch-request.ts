import type { SourceRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { cutBillingLine } from '../../generation/portable/billing-line.ts';
import type { EncodeInput, Json, JsonObject } from '../codec.ts';
import type { Drops } from '../drops.ts';
import { listIn, objectIn, textIn } from '../json.ts';
import { patchServiceTier } from '../service-tier.ts';
import { type SentBody, sentBody } from '../sent-body.ts';
import { type ModelTraits, findTraits } from './model-traits.ts';
import { blockMembers, messagesRequestSchema } from './request-schema.ts';
import { isForeign } from './reasoning-blobs.ts';

const knownMembers = new Set(Object.keys(messagesRequestSchema.shape));

/** The smallest thinking budget that is accepted (docs/interfaces/messages.md "Stream"). */
export const thinkingBudgetMin = 1_024;

/**
 * Patches the JSON of a Messages client for a Messages upstream: sets the route's model, limit and tier, normalises the answer format, and removes settings
 * that the model refuses. Removes nulls of known members, and reasoning that another protocol signed, since this upstream would refuse it. Everything else
 * is unchanged. Adds removed settings and reasoning to `drops`.
 */
export function patchedRequest(input: EncodeInput, source: SourceRequest, drops: Drops): SentBody {
  const { request, model, maxOutputTokens, stream } = input;
  const sent = sentBody(source);
  const { body } = sent;
  for (const [name, value] of Object.entries(body)) if (value === null && knownMembers.has(name)) delete body[name];
  body['model'] = model;
  if (maxOutputTokens !== undefined) body['max_tokens'] = maxOutputTokens;
  if (!isAnthropics.test(model)) patchSystem(body);
  patchFormat(body);
  patchRefusedPairs(body, findTraits(model), drops);
  patchThinking(body, drops);
  patchServiceTier(body, request, ['auto', 'standard_only']);
  body['messages'] = listIn(body['messages']).map(message => patchedMessage(message, drops));
  if (stream) body['stream'] = true;
  else delete body['stream'];
  return sent;
}

/** Matches the names of Anthropic's models, at its own server and in clouds. */
const isAnthropics = /claude/i;

/** Removes Claude Code's billing line, which only Anthropic reads. */
function patchSystem(body: JsonObject): void {
  const { system } = body;
  const [first, ...rest] = typeof system === 'string' ? [] : listIn(system);
  const block = objectIn(first);
  const text = textIn(block === undefined ? system : block['text']);
  const kept = cutBillingLine(text);
  if (kept === text) return;
  const blocks = [...(kept === '' ? [] : [{ ...block, text: kept }]), ...rest];
  const cut = block === undefined ? kept : blocks;
  if (cut.length === 0) delete body['system'];
  else body['system'] = cut;
}

/** Renames the older `output_format` to `output_config.format`. */
function patchFormat(body: JsonObject): void {
  const format = body['output_format'];
  if (format === undefined) return;
  delete body['output_format'];
  const config = objectIn(body['output_config']) ?? {};
  body['output_config'] = { ...config, format: config['format'] ?? format };
}

/** Removes one setting of each pair that the model refuses. Source: docs/interfaces/README.md "Refused, listed or dropped". */
function patchRefusedPairs(body: JsonObject, traits: ModelTraits, drops: Drops): void {
  const { temperature, top_p: topP } = body;
  if (!traits.samplingPair && typeof temperature === 'number' && typeof topP === 'number') {
    delete body['top_p'];
    drops.add('top_p');
  }
  const isForced = ['any', 'tool'].includes(textIn(objectIn(body['tool_choice'])?.['type']));
  const thinking = textIn(objectIn(body['thinking'])?.['type']);
  // Adaptive thinking and a forced call are taken together.
  if (!isForced || thinking !== 'enabled') return;
  if (traits.forcedWhileThinking || !traits.forcedToolChoice) return;
  delete body['thinking'];
  drops.add('thinking');
}

/** Lowers the thinking budget below `max_tokens`, which may itself have been lowered to the model's maximum. */
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
    const isForeignBlock = isForeignReasoning(objectIn(block));
    if (isForeignBlock) drops.add('thinking');
    return !isForeignBlock;
  });
  return { ...message, content: content.map(withoutNulls) };
}

function isForeignReasoning(block: JsonObject | undefined): boolean {
  if (block?.['type'] !== 'thinking') return false;
  const signature = textIn(block['signature']);
  return signature === '' || isForeign(signature);
}

/** Removes members that clients copy from answers but upstreams refuse: nulls in known members (`citations: null`) and `parsed_output` (translation case RE-20). */
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
