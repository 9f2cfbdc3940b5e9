import assert from 'node:assert/strict';
import { type Item, ItemStatus, type Part, ToolKind } from '../../gen/tollgate/v1/content_pb.ts';
import { ExtensionScope, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { type FoldedChoice, foldEvents } from '../../generation/fold.ts';
import type { DecodedRequest, JsonObject } from '../codec.ts';
import { renderAnnotation } from './annotation.ts';
import { renderFinishReason } from './finish-reason.ts';
import { toIdentity } from './identity.ts';
import { renderTokens } from './logprobs.ts';
import { renderImage } from './made-images.ts';
import { renderItemDetails, readReasoningText, type ReasoningPlace } from './reasoning-details.ts';
import { extras } from './extras.ts';
import { callMembers } from './tool-call.ts';
import { renderServiceTier } from '../service-tier.ts';
import { usage } from './usage.ts';

/** Renders the whole answer. It has the same content as the chunks of the same events together. Source: docs/interfaces/chat-completions.md "Response", "Stream". */
export function renderWhole(events: readonly GenerationEvent[], decoded: DecodedRequest): JsonObject {
  const { started, choices, completed } = foldEvents(events);
  assert(started !== undefined && completed !== undefined, 'the generation ended without completed');
  const { id, created, model, fingerprint } = toIdentity(started);
  const legacy = decoded.legacyFunctions === true;
  const answer = {
    id,
    object: 'chat.completion',
    created,
    model,
    choices: choices.map((choice, index) => renderChoice(choice, index, legacy)),
    usage: usage.render(completed),
    service_tier: renderServiceTier(completed),
    system_fingerprint: fingerprint,
  };
  // A spread makes a slower object than a literal, and few answers need one; the same in the other functions here.
  return choices.some(hasExtensions) ? { ...renderExtensions(choices), ...answer } : answer;
}

function hasExtensions({ extensions }: FoldedChoice): boolean {
  return extensions.length > 0;
}

/** Returns the members of the whole answer that only Chat has. */
function renderExtensions(choices: readonly FoldedChoice[]): JsonObject {
  return extras.ofExtensions(
    choices.flatMap(choice => choice.extensions),
    ExtensionScope.RESPONSE,
  );
}

function renderChoice(choice: FoldedChoice, index: number, legacy: boolean): JsonObject {
  const { items, finished } = choice;
  assert(finished !== undefined, `choice ${index} never finished`);
  const reason = renderFinishReason(finished, items.some(isCall));
  const parts = listParts(items);
  const message = renderMessage(items, parts, legacy);
  const rendered = {
    index,
    message,
    logprobs: renderLogprobs(parts),
    finish_reason: legacy && reason === 'tool_calls' ? 'function_call' : reason,
  };
  if (!hasExtensions(choice)) return rendered;
  return {
    ...rendered,
    message: { ...extras.ofExtensions(choice.extensions, ExtensionScope.DELTA), ...message },
    ...extras.ofExtensions(choice.extensions, ExtensionScope.CHOICE),
  };
}

function isCall({ content }: Item): boolean {
  return content.case === 'toolCall';
}

function isServerTool({ content }: Item): boolean {
  return content.case === 'serverTool';
}

function listImages(items: readonly Item[]): JsonObject[] {
  const images: JsonObject[] = [];
  for (const { content } of items) {
    const image = content.case === 'serverTool' ? renderImage(content.value, images.length) : undefined;
    if (image !== undefined) images.push(image);
  }
  return images;
}

function isReasoning({ content }: Item): boolean {
  return content.case === 'reasoning';
}

function listParts(items: readonly Item[]): readonly Part[] {
  const [first] = items;
  if (items.length === 1 && first?.content.case === 'message') return first.content.value.parts;
  return items.flatMap(item => (item.content.case === 'message' ? item.content.value.parts : []));
}

/** Renders the message of a choice; all its texts are joined, because Chat has one member for them. */
function renderMessage(items: readonly Item[], parts: readonly Part[], legacy: boolean): JsonObject {
  // One pass: lists of parts by kind would cost more than the rest of a short answer.
  let text = '';
  let refusal = '';
  const annotations: JsonObject[] = [];
  for (const { content } of parts) {
    if (content.case === 'refusal') refusal += content.value.text;
    if (content.case !== 'text') continue;
    text += content.value.text;
    for (const annotation of content.value.annotations) {
      const rendered = renderAnnotation(annotation);
      if (rendered !== undefined) annotations.push(rendered);
    }
  }
  const calls = items.some(isCall) ? items.flatMap(renderCall) : [];
  const isSilent = text === '' && (calls.length > 0 || refusal !== '');
  const message: JsonObject = {
    role: 'assistant',
    content: isSilent ? null : text.toWellFormed(),
    refusal: refusal === '' ? null : refusal.toWellFormed(),
  };
  if (items.some(isReasoning)) Object.assign(message, renderReasoning(items));
  if (annotations.length > 0) message['annotations'] = annotations;
  const images = items.some(isServerTool) ? listImages(items) : [];
  if (images.length > 0) message['images'] = images;
  return calls.length === 0 ? message : Object.assign(message, renderCalls(calls, legacy));
}

function renderReasoning(items: readonly Item[]): JsonObject {
  const text = items
    .flatMap(({ content }) => (content.case === 'reasoning' ? content.value.parts.map(readReasoningText) : []))
    .join('');
  return {
    ...(text === '' ? {} : { reasoning_content: text.toWellFormed() }),
    reasoning_details: listPlaces(items).flatMap(({ item, place }, index) => renderItemDetails(item, index, { place })),
  };
}

/** Lists the reasoning among the items, each with its position: how much content precedes it. */
function listPlaces(items: readonly Item[]): { item: Item; place: ReasoningPlace }[] {
  let calls = 0;
  let text = 0;
  return items.flatMap(item => {
    const { content } = item;
    if (content.case === 'toolCall') calls += 1;
    if (content.case === 'message') {
      for (const part of content.value.parts) if (part.content.case === 'text') text += part.content.value.text.length;
    }
    return content.case === 'reasoning' ? [{ item, place: { calls, text } }] : [];
  });
}

function renderCall(item: Item): JsonObject[] {
  if (item.content.case !== 'toolCall') return [];
  const call = item.content.value;
  // As in a stream: strict clients reject a call without any arguments (translation case TS-10).
  const isEmpty = call.arguments === '' && call.kind !== ToolKind.CUSTOM && item.status !== ItemStatus.INCOMPLETE;
  return [callMembers(item, call, isEmpty ? '{}' : call.arguments.toWellFormed())];
}

function renderCalls(calls: readonly JsonObject[], legacy: boolean): JsonObject {
  const [first] = calls;
  if (first === undefined) return {};
  const called = first['function'];
  return legacy && called !== undefined ? { function_call: called } : { tool_calls: [...calls] };
}

/** Returns the log probabilities; null if there are none, for example because they were not requested. */
function renderLogprobs(parts: readonly Part[]): JsonObject | null {
  if (!parts.some(({ content }) => content.case === 'text' && content.value.logprobs.length > 0)) return null;
  const tokens = parts.flatMap(({ content }) => (content.case === 'text' ? content.value.logprobs : []));
  return { content: renderTokens(tokens), refusal: null };
}
