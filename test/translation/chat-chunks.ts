/** Chunks as Chat upstreams write them, and functions that read them with the codec. */
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { Json, JsonObject } from '../../src/codecs/codec.ts';
import type { Item } from '../../src/gen/tollgate/v1/content_pb.ts';
import type { GenerationEvent } from '../../src/gen/tollgate/v1/event_pb.ts';
import { foldEvents } from '../../src/generation/fold.ts';
import { UpstreamFailure } from '../../src/generation/upstream.ts';
import { parseChunks } from '../contracts/codec-suite.ts';

/** The frame that ends a stream. */
export const done = 'data: [DONE]\n\n';
/** Returns a frame with any JSON. */
export const frame = (value: Json): string => `data: ${JSON.stringify(value)}\n\n`;
/** The members that every chunk has. */
export const base = { id: 'chatcmpl-up', object: 'chat.completion.chunk', created: 1, model: 'm' };
/** Returns a chunk with one choice. */
export const chunk = (delta: JsonObject, more: JsonObject = {}): string =>
  frame({ ...base, choices: [{ index: 0, delta, finish_reason: null, ...more }] });
/** Returns the chunk with the finish. */
export const finish = (reason: string, more: JsonObject = {}): string => chunk({}, { finish_reason: reason, ...more });
/** Returns a chunk with tool calls. */
export const calls = (...entries: JsonObject[]): string => chunk({ tool_calls: entries });

/** Returns the core's events for a stream: parsed, put in order, validated. */
export const events = (...frames: string[]): GenerationEvent[] =>
  parseChunks(chatCodec, 'acme', [Buffer.from(frames.join(''))]);
/** Returns the events of frames as the parser returns them: not yet in order. */
export const parsed = (...frames: string[]): GenerationEvent[] => {
  const parser = chatCodec.parseStream('acme');
  const messages = frames.map(each => ({ event: '', data: each.replace(/^data: /, '').trimEnd() }));
  const added: GenerationEvent[] = [];
  for (const message of messages) parser.push(message, added);
  parser.end(added);
  return added;
};
/** Returns the items of a stream’s only choice. */
export const foldItems = (...frames: string[]): readonly Item[] =>
  foldEvents(events(...frames)).choices[0]?.items ?? [];

/** Returns items in short: texts, reasoning in brackets, calls as id:name(arguments). */
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
/** Returns the items of a stream’s only choice in short. */
export const foldShort = (...frames: string[]): string[] => short(foldItems(...frames));

/** Returns the failure that `act` throws. */
export function catchFailure(act: () => unknown): UpstreamFailure {
  try {
    act();
  } catch (thrown) {
    if (thrown instanceof UpstreamFailure) return thrown;
    throw thrown;
  }
  throw new Error('it did not fail');
}

/** Returns the entry that begins a call. */
export const tool = (index: number, id: string, name: string, args = ''): JsonObject => ({
  index,
  id,
  type: 'function',
  function: { name, arguments: args },
});
/** Returns the entry that continues a call. */
export const args = (index: number, text: string): JsonObject => ({ index, function: { arguments: text } });
/** The chunk with the finish reason for calls. */
export const called = finish('tool_calls');
