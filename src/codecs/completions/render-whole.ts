import assert from 'node:assert/strict';
import { type Extension, ExtensionScope, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { type FoldedChoice, foldEvents } from '../../generation/fold.ts';
import type { Json, JsonObject } from '../codec.ts';
import { objectIn } from '../json.ts';
import { extras, usage } from './extras.ts';
import { renderFinishReason, renderIdentity } from './identity.ts';

/** Renders the whole answer. It has the same content as the chunks of the same events together. */
export function renderWhole(events: readonly GenerationEvent[]): JsonObject {
  const { started, choices, completed } = foldEvents(events);
  assert(started !== undefined && completed !== undefined, 'the generation ended without completed');
  return {
    ...extras.ofExtensions(
      choices.flatMap(({ extensions }) => extensions),
      ExtensionScope.RESPONSE,
    ),
    ...renderIdentity(started),
    choices: choices.map(renderChoice),
    usage: usage.render(completed),
  };
}

function renderChoice({ items, finished, extensions }: FoldedChoice, index: number): JsonObject {
  assert(finished !== undefined, `choice ${index} never finished`);
  const texts = items.flatMap(({ content }) => (content.case === 'message' ? content.value.parts : []));
  const text = texts.map(({ content }) =>
    content.case === 'text' || content.case === 'refusal' ? content.value.text : '',
  );
  return {
    text: text.join('').toWellFormed(),
    index,
    logprobs: null,
    finish_reason: renderFinishReason(finished),
    ...joinMembers(extensions),
  };
}

/** Joins the members of all chunks of a choice: lists of log probabilities are concatenated; of other members the last value counts. */
function joinMembers(extensions: readonly Extension[]): JsonObject {
  const joined: JsonObject = {};
  for (const { scope, extra } of extensions) {
    if (scope !== ExtensionScope.CHOICE) continue;
    const members = extras.members(extra);
    const before = objectIn(joined['logprobs']);
    const added = objectIn(members['logprobs']);
    Object.assign(joined, members);
    if (before !== undefined && added !== undefined) joined['logprobs'] = joinLists(before, added);
  }
  return joined;
}

function joinLists(before: JsonObject, added: JsonObject): Json {
  const joined: JsonObject = { ...before };
  for (const [name, value] of Object.entries(added)) {
    const first = before[name];
    joined[name] = Array.isArray(first) && Array.isArray(value) ? [...first, ...value] : value;
  }
  return joined;
}
