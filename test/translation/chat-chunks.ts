/** Chunks as Chat upstreams write them, and what the codec makes of them. */
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { Json, JsonObject } from '../../src/codecs/codec.ts';
import type { Item } from '../../src/gen/tollgate/v1/content_pb.ts';
import type { GenerationEvent } from '../../src/gen/tollgate/v1/event_pb.ts';
import { foldEvents } from '../../src/generation/fold.ts';
import { UpstreamFailure } from '../../src/generation/upstream.ts';
import { parseChunks } from '../contracts/codec-suite.ts';

/** The frame that ends a stream. */
export const done = 'data: [DONE]\n\n';
/** A frame with any JSON. */
export const frame = (value: Json): string => `data: ${JSON.stringify(value)}\n\n`;
/** The members that every chunk has. */
export const base = { id: 'chatcmpl-up', object: 'chat.completion.chunk', created: 1, model: 'm' };
/** A chunk with one choice. */
export const chunk = (delta: JsonObject, more: JsonObject = {}): string =>
  frame({ ...base, choices: [{ index: 0, delta, finish_reason: null, ...more }] });
/** The chunk with the finish. */
export const finish = (reason: string, more: JsonObject = {}): string => chunk({}, { finish_reason: reason, ...more });
/** A chunk with tool calls. */
export const calls = (...entries: JsonObject[]): string => chunk({ tool_calls: entries });

/** The core's result for a stream: parsed, put in order, validated. */
export const events = (...frames: string[]): GenerationEvent[] =>
  parseChunks(chatCodec, 'acme', [Buffer.from(frames.join(''))]);
/** The events of frames as the parser gives them: not yet in order. */
export const parsed = (...frames: string[]): GenerationEvent[] => {
  const parser = chatCodec.parseStream('acme');
  const messages = frames.map(each => ({ event: '', data: each.replace(/^data: /, '').trimEnd() }));
  return [...messages.flatMap(message => parser.push(message)), ...parser.end()];
};
/** The items of a stream’s only choice. */
export const foldItems = (...frames: string[]): readonly Item[] =>
  foldEvents(events(...frames)).choices[0]?.items ?? [];

/** Items in short: texts, reasoning in brackets, calls as id:name(arguments). */
export function short(items: readonly Item[]): string[] {
  return items.map(({ content }) => {
    if (content.case === 'toolCall') return `${content.value.callId}:${content.value.name}(${content.value.arguments})`;
    const parts = content.case === 'message' || content.case === 'reasoning' ? content.value.parts : [];
    const text = parts
      .map(part => ('text' in (part.content.value ?? {}) ? (part.content.value as { text: string }).text : ''))
      .join('|');
    return content.case === 'reasoning' ? `[${text}]` : text;
  });
}
/** The same in short. */
export const foldShort = (...frames: string[]): string[] => short(foldItems(...frames));

/** The failure that an act ends in. */
export function catchFailure(act: () => unknown): UpstreamFailure {
  try {
    act();
  } catch (thrown) {
    if (thrown instanceof UpstreamFailure) return thrown;
    throw thrown;
  }
  throw new Error('it did not fail');
}

/** The entry that begins a call. */
export const tool = (index: number, id: string, name: string, args = ''): JsonObject => ({
  index,
  id,
  type: 'function',
  function: { name, arguments: args },
});
/** The entry that continues one. */
export const args = (index: number, text: string): JsonObject => ({ index, function: { arguments: text } });
/** The finish for calls. */
export const called = finish('tool_calls');
