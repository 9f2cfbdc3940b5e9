import {
  type Item,
  type Message,
  type Opaque,
  Phase,
  type Reasoning,
  Role,
  type ToolCall,
  ToolKind,
  type ToolResult,
} from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { fieldName, reasoningName } from '../../generation/check/field-names.ts';
import type { Json, JsonObject } from '../codec.ts';
import { checkToolName, type Drops, unsupportedContent, unsupportedItem } from '../drops.ts';
import { compactionKind, encryptedKind, itemIdKind } from './blobs.ts';
import { callIdFor } from '../../generation/call-id.ts';
import { encodeInputPart, encodeOutputPart, isForeign } from './encode-part.ts';
import { defined } from '../json.ts';
import { extras } from './extras.ts';
import { phaseMember, speakerMembers } from './render-item.ts';

/**
 * Encodes items for a Responses upstream. The upstream stores nothing, so that it would not know the ids of stored items: they are left out,
 * except the id that encrypted reasoning is bound to. Sources: docs/interfaces/README.md "Translation",
 * "Refused, listed or dropped"; translation cases TR-05, TR-10, TR-11, RE-04, RE-07, RE-11, RE-13, RP-11, RP-20, SV-05, SV-08.
 */
export class InputEncoder {
  readonly #request: GenerateRequest;
  readonly #drops: Drops;
  readonly #provider: string | undefined;
  readonly #kinds = new Map<string, ToolKind>();
  /** The latest id that was given to a call, by the id that the client sent. In some protocols ids are unique only within a turn, so that clients reuse them. */
  readonly #calls = new Map<string, string>();
  readonly #taken = new Set<string>();

  /** `provider`: only reasoning that this provider made is sent. */
  constructor(request: GenerateRequest, drops: Drops, provider: string | undefined) {
    this.#request = request;
    this.#drops = drops;
    this.#provider = provider;
  }

  /** Returns the encoded item; undefined if it is dropped and listed because it can't be expressed. Throws `unsupported_parameter`. */
  encode(item: Item): JsonObject | undefined {
    const { content } = item;
    switch (content.case) {
      case 'message':
        return this.#message(item, content.value);
      case 'reasoning':
        return this.#reasoning(item, content.value);
      case 'toolCall':
        return { ...this.#call(content.value), ...extras.members(item.extra) };
      case 'toolResult':
        return { ...this.#result(content.value), ...extras.members(item.extra) };
      case 'compaction': {
        const { opaque } = content.value;
        if (opaque === undefined || opaque.kind !== compactionKind || !this.#isOurs(opaque)) {
          throw unsupportedContent(this.#request, 'a conversation that another provider compacted');
        }
        return { type: 'compaction', encrypted_content: opaque.data, ...extras.members(item.extra) };
      }
      default: {
        const isCarried = content.case === 'serverTool' || content.case === 'unknown';
        const own = isCarried ? extras.own(content.value) : undefined;
        if (own === undefined) throw unsupportedItem(item, this.#request);
        return own;
      }
    }
  }

  #message(item: Item, { role, name, parts, phase }: Message): JsonObject | undefined {
    if (name !== '') this.#drops.add('name');
    const members = extras.members(item.extra);
    if (role !== Role.ASSISTANT) {
      const content = parts.map(part => encodeInputPart(part, this.#request, this.#drops));
      return { type: 'message', role: roleNames[role] ?? 'user', content, ...members };
    }
    if (parts.length === 0 && isForeign(this.#request)) return undefined;
    const content = parts.map(part => encodeOutputPart(part, this.#request));
    return {
      type: 'message',
      role: 'assistant',
      content,
      ...(phase === Phase.UNSPECIFIED ? {} : phaseMember(phase)),
      ...members,
    };
  }

  #call({ callId, name, namespace, kind, arguments: text }: ToolCall): JsonObject {
    checkToolName(name, fieldName(this.#request.endpoint, 'items'));
    this.#kinds.set(callId, kind);
    const call_id = this.#findCallId(callId);
    const called = { call_id, name, ...(namespace === undefined ? {} : { namespace }) };
    if (kind === ToolKind.CUSTOM) return { type: 'custom_tool_call', ...called, input: text };
    return { type: 'function_call', ...called, arguments: text === '' ? '{}' : text };
  }

  #findCallId(callId: string): string {
    const legal = callIdFor(callId);
    let id = legal;
    if (isForeign(this.#request)) {
      for (let use = 2; this.#taken.has(id); use += 1) id = callIdFor(`${legal}_${use}`);
    }
    this.#taken.add(id);
    this.#calls.set(callId, id);
    return id;
  }

  #result(result: ToolResult): JsonObject {
    const { callId, kind, parts, plain, isError } = result;
    // In Chat and Messages, a result does not have the kind of its tool.
    const called = this.#kinds.get(callId) ?? kind;
    const type = called === ToolKind.CUSTOM ? 'custom_tool_call_output' : 'function_call_output';
    const name = isForeign(this.#request) ? '' : result.name;
    const speaker = speakerMembers({ ...result, name, callId: this.#calls.get(callId) ?? callId });
    const [only] = parts;
    const text = parts.length === 1 && only?.content.case === 'text' ? only.content.value.text : undefined;
    const isText = (only === undefined || text !== undefined) && (plain || isForeign(this.#request));
    const output: Json = isText ? (text ?? '') : parts.map(part => encodeInputPart(part, this.#request, this.#drops));
    return { type, ...speaker, output: isError ? this.#failed(output) : output };
  }

  /** Returns the output of a failed tool, with a text that says so, because Responses has no field for it. */
  #failed(output: Json): Json {
    this.#drops.add('is_error');
    return typeof output === 'string'
      ? `Error: ${output}`
      : [{ type: 'input_text', text: 'Error:' }, ...(output as JsonObject[])];
  }

  /** Encodes reasoning if this upstream can read its encrypted content, without which the upstream would refuse the summaries. */
  #reasoning(item: Item, { parts, opaque }: Reasoning): JsonObject | undefined {
    const ours = opaque.filter(blob => this.#isOurs(blob) && (blob.kind === encryptedKind || blob.kind === itemIdKind));
    const sealed = ours.find(({ kind }) => kind === encryptedKind);
    const content = parts.flatMap(part =>
      part.content.case === 'reasoningText' ? [{ type: 'reasoning_text', text: part.content.value.text }] : [],
    );
    const isReadable = content.length > 0 && opaque.length === 0 && !isForeign(this.#request);
    if (ours.length < opaque.length || (sealed === undefined && !isReadable)) {
      this.#drops.add(reasoningName(this.#request.endpoint));
    }
    if (sealed === undefined && !isReadable) return undefined;
    const summary = parts.flatMap(part =>
      part.content.case === 'summaryText' ? [{ type: 'summary_text', text: part.content.value.text }] : [],
    );
    const id = ours.find(({ kind }) => kind === itemIdKind)?.data ?? (sealed?.provider === '' ? item.id : '');
    const shown = { id: id || undefined, summary, content: content.length === 0 ? undefined : content };
    return {
      type: 'reasoning',
      ...defined({ ...shown, encrypted_content: sealed?.data }),
      ...extras.members(item.extra),
    };
  }

  /** Returns whether the upstream may read a blob. A blob without a provider is accepted: Chat clients send such blobs, and the upstream checks them anyway. */
  #isOurs({ provider }: Opaque): boolean {
    return provider === '' || provider === this.#provider;
  }
}

const roleNames: Readonly<Partial<Record<Role, string>>> = {
  [Role.SYSTEM]: 'system',
  [Role.DEVELOPER]: 'developer',
  [Role.USER]: 'user',
};
