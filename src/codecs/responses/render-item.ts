import {
  type Item,
  ItemStatus,
  type Message,
  type Part,
  Phase,
  Protocol,
  type Reasoning,
  Role,
  type ServerTool,
  type ToolCall,
  ToolKind,
  type ToolResult,
} from '../../gen/tollgate/v1/content_pb.ts';
import { readMadeImage } from '../../generation/made-image.ts';
import { parseExact } from '../../lib/exact-json.ts';
import type { Json, JsonObject } from '../codec.ts';
import { envelopeIn } from './blobs.ts';
import { extras } from './extras.ts';
import { callIdFor } from '../../generation/call-id.ts';
import { renderInputPart, renderOutputPart, renderReasoningPart } from './render-part.ts';

/** Renders items of the contract as items of Responses. Source: docs/interfaces/responses.md "Response", "Stream"; translation cases TR-07, RP-17. */

/** Returns whether Responses can show an item. Of tools that an upstream of another protocol ran it can only show images, and of unknown items of another protocol nothing. */
export function isShown({ content }: Item): boolean {
  const isCarried = content.case === 'serverTool' || content.case === 'unknown';
  if (!isCarried || content.value.protocol === Protocol.RESPONSES) return true;
  return content.case === 'serverTool' && (readMadeImage(content.value)?.base64 ?? '') !== '';
}

/** Renders an item of the output or the input with all its fields; an empty object if it can't be shown (`isShown`). */
export function renderItem(item: Item): JsonObject {
  const head = { ...extras.members(item.extra), id: item.id };
  const status = statusName(item.status);
  const { content } = item;
  switch (content.case) {
    case 'message':
      return { ...head, type: 'message', status, ...messageMembers(content.value) };
    case 'reasoning':
      return { ...head, type: 'reasoning', status, ...reasoningMembers(content.value) };
    case 'toolCall':
      return { ...head, status, ...callMembers(content.value) };
    case 'toolResult':
      return { ...head, status, ...resultMembers(content.value) };
    case 'compaction':
      return { ...head, type: 'compaction', encrypted_content: content.value.opaque?.data ?? '' };
    case 'reference':
      return { type: 'item_reference', id: content.value.id };
    case 'serverTool':
      return renderServerTool(item.id, content.value);
    case 'unknown':
      return isShown(item) ? (parseExact(content.value.json).value as JsonObject) : {};
    default:
      return {};
  }
}

/** Renders the item of a tool as its provider wrote it, or the image of another protocol as if OpenAI's tool had made it. */
function renderServerTool(id: string, tool: ServerTool): JsonObject {
  if (tool.protocol === Protocol.RESPONSES) return parseExact(tool.json).value as JsonObject;
  const image = readMadeImage(tool);
  if (image === undefined) return {};
  const format = image.mediaType.replace(/^image\//, '');
  return { id, type: 'image_generation_call', status: 'completed', output_format: format, result: image.base64 };
}

/** Returns the name of a status; an item without one (from a request) is complete. */
function statusName(status: ItemStatus): string {
  if (status === ItemStatus.INCOMPLETE) return 'incomplete';
  return status === ItemStatus.IN_PROGRESS ? 'in_progress' : 'completed';
}

const roles: Readonly<Record<Role, string>> = {
  [Role.UNSPECIFIED]: 'user',
  [Role.SYSTEM]: 'system',
  [Role.DEVELOPER]: 'developer',
  [Role.USER]: 'user',
  [Role.ASSISTANT]: 'assistant',
};

function messageMembers({ role, parts, phase }: Message): JsonObject {
  const render = role === Role.ASSISTANT ? renderOutputPart : shownInputPart;
  return { role: roles[role] ?? 'user', content: rendered(parts, render), ...phaseMember(phase) };
}

/** Renders a part of the input with all fields that Responses returns, also those that a client may omit. */
function shownInputPart(part: Part): JsonObject | undefined {
  const shown = renderInputPart(part);
  return shown?.['type'] === 'input_image' ? { detail: 'auto', image_url: null, ...shown } : shown;
}

/** Returns the member `phase`; an empty object if the phase is not known. */
export function phaseMember(phase: Phase): JsonObject {
  if (phase === Phase.UNSPECIFIED) return {};
  return { phase: phase === Phase.COMMENTARY ? 'commentary' : 'final_answer' };
}

function rendered(parts: readonly Part[], render: (part: Part) => JsonObject | undefined): JsonObject[] {
  return parts.map(render).filter(part => part !== undefined);
}

function reasoningMembers({ parts, opaque }: Reasoning): JsonObject {
  const sealed = envelopeIn(opaque);
  return {
    summary: rendered(parts, renderReasoningPart),
    ...(sealed === undefined ? {} : { encrypted_content: sealed }),
  };
}

/** Returns the members of a call. */
export function callMembers({ callId, name, namespace, kind, arguments: text }: ToolCall): JsonObject {
  const written = text.toWellFormed();
  const called = { call_id: callIdFor(callId), name, ...(namespace === undefined ? {} : { namespace }) };
  if (kind === ToolKind.CUSTOM) return { type: 'custom_tool_call', ...called, input: written };
  return { type: 'function_call', ...called, arguments: written };
}

function resultMembers(result: ToolResult): JsonObject {
  const type = result.kind === ToolKind.CUSTOM ? 'custom_tool_call_output' : 'function_call_output';
  return { type, ...speakerMembers(result), output: renderOutput(result.parts, result.plain) };
}

/** Returns the members that say what a tool result belongs to: the id of its call, if it had one, and the name of the tool, if it is known. */
export function speakerMembers({ callId, name, namespace }: ToolResult): JsonObject {
  const named = { ...(name === '' ? {} : { name }), ...(namespace === undefined ? {} : { namespace }) };
  return callId === '' ? named : { call_id: callIdFor(callId), ...named };
}

/** Returns the content of a tool result: a string if the client sent a string, else a list of parts. */
export function renderOutput(parts: readonly Part[], plain: boolean): Json {
  const [only] = parts;
  if (only === undefined && plain) return '';
  if (plain && parts.length === 1 && only?.content.case === 'text') return only.content.value.text.toWellFormed();
  return rendered(parts, shownInputPart);
}
