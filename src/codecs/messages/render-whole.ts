import assert from 'node:assert/strict';
import { type Item, ItemStatus, type Opaque, type Part } from '../../gen/tollgate/v1/content_pb.ts';
import { ExtensionScope, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { foldEvents } from '../../generation/fold.ts';
import type { DecodedRequest, JsonObject } from '../codec.ts';
import { CitationRenderer } from './citation.ts';
import { objectIn } from '../json.ts';
import { extras } from './extras.ts';
import { parseInput, messageHead } from './message-shape.ts';
import { type AnswerFacts, renderStop } from './stop-reason.ts';
import { redactedKind, toSignature } from './reasoning-blobs.ts';
import { renderUsage } from './usage.ts';

/** Renders the whole answer. It has the same content as the frames of the same events together. Source: docs/interfaces/messages.md "Response", "Stream". */
export function renderWhole(
  events: readonly GenerationEvent[],
  decoded: Pick<DecodedRequest, 'ownStopReasons'>,
): JsonObject {
  const { started, choices, completed } = foldEvents(events);
  assert(started !== undefined && completed !== undefined, 'the generation ended without completed');
  const [choice] = choices;
  assert(choice?.finished !== undefined, 'the answer never finished');
  return {
    ...objectIn(extras.members(started.extra)['message']),
    ...extras.ofExtensions(choice.extensions, ExtensionScope.RESPONSE),
    ...messageHead(started),
    content: choice.items.flatMap(renderBlocks),
    ...renderStop(choice.finished, readFacts(choice.items), decoded),
    usage: renderUsage(completed),
  };
}

function readFacts(items: readonly Item[]): AnswerFacts {
  return {
    hasCalls: items.some(item => item.content.case === 'toolCall'),
    hasRefusal: items.some(hasRefusal),
  };
}

function hasRefusal({ content }: Item): boolean {
  return content.case === 'message' && content.value.parts.some(part => part.content.case === 'refusal');
}

function renderBlocks(item: Item): JsonObject[] {
  const { content } = item;
  switch (content.case) {
    case 'message':
      return content.value.parts.flatMap(part => [...textBlock(item, part), ...sealBlock(part.signature)]);
    case 'reasoning':
      return renderReasoningBlocks(item);
    case 'toolCall': {
      // A client could run a call of which only the beginning came.
      if (item.status === ItemStatus.INCOMPLETE) return [];
      const { callId: id, name, signature } = content.value;
      // As in a stream, another protocol's signature of the call precedes the call.
      return [
        ...sealBlock(signature),
        { type: 'tool_use', id, name, input: parseInput(item, content.value), ...extras.members(item.extra) },
      ];
    }
    case 'serverTool':
      return [extras.own(content.value) ?? []].flat();
    default:
      return [];
  }
}

/** Returns another protocol's signature of a text or a call as a reasoning block, because that is the only block that every client sends back. */
function sealBlock(signature: Opaque | undefined): JsonObject[] {
  return signature === undefined ? [] : [{ type: 'thinking', thinking: '', signature: toSignature([signature]) }];
}

function textBlock(item: Item, { content, extra }: Part): JsonObject[] {
  const members = { ...extras.members(item.extra), ...extras.members(extra) };
  if (content.case === 'refusal') return [{ type: 'text', text: content.value.text.toWellFormed(), ...members }];
  if (content.case !== 'text') return [];
  const renderer = new CitationRenderer();
  const citations = content.value.annotations.map(each => renderer.render(each)).filter(each => each !== undefined);
  return [
    {
      type: 'text',
      text: content.value.text.toWellFormed(),
      ...(citations.length === 0 ? {} : { citations }),
      ...members,
    },
  ];
}

function renderReasoningBlocks(item: Item): JsonObject[] {
  if (item.content.case !== 'reasoning') return [];
  const { parts, opaque } = item.content.value;
  const hidden = opaque.filter(({ kind }) => kind === redactedKind);
  const seals = opaque.filter(({ kind }) => kind !== redactedKind);
  const blocks: JsonObject[] = [];
  if (parts.length > 0 || seals.length > 0) {
    const thinking = parts.map(readReasoningText).join('\n\n');
    // Signed reasoning must be sent back byte for byte, or its signature becomes invalid.
    const shown = seals.length > 0 ? thinking : thinking.toWellFormed();
    blocks.push({
      type: 'thinking',
      thinking: shown,
      signature: toSignature(seals, { parts, extra: item.extra }),
      ...extras.members(item.extra),
    });
  }
  for (const { data } of hidden) blocks.push({ type: 'redacted_thinking', data, ...extras.members(item.extra) });
  return blocks;
}

function readReasoningText({ content }: Part): string {
  return content.case === 'reasoningText' || content.case === 'summaryText' ? content.value.text : '';
}
