import { type Item, type Opaque, type ToolCall, ToolKind } from '../../gen/tollgate/v1/content_pb.ts';
import type { JsonObject } from '../codec.ts';
import { mergeUnknown } from '../unknown-members.ts';
import { extras } from './extras.ts';

/**
 * Returns the members of a tool call as Chat writes it, with the given arguments. In a stream, the caller puts `index` before them.
 */
export function callMembers(item: Item, call: ToolCall, args: string): JsonObject {
  const { callId: id, name, signature } = call;
  const body: JsonObject =
    call.kind === ToolKind.CUSTOM
      ? { type: 'custom', custom: { name, input: args } }
      : { type: 'function', function: { name, arguments: args } };
  const signed = signature === undefined ? undefined : signatureMembers(signature);
  return mergeUnknown({ id, ...body, ...signed }, extras.members(item.extra));
}

/**
 * Returns a Gemini signature as Gemini's own Chat interface carries it (translation case RE-23); undefined for other signatures, which Chat can't carry.
 */
export function signatureMembers({ kind, data }: Opaque): JsonObject | undefined {
  return kind === 'gemini.thought_signature' ? { extra_content: { google: { thought_signature: data } } } : undefined;
}
