import {
  type Item,
  type Message,
  type Opaque,
  type Part,
  Role,
  type ToolCall,
  type ToolResult,
} from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { fieldName, reasoningName } from '../../generation/check/field-names.ts';
import type { Json, JsonObject } from '../codec.ts';
import { cacheMember } from '../cache-hint.ts';
import { type Drops, unsupportedItem } from '../drops.ts';
import { textIn } from '../json.ts';
import { encodeArguments } from '../free-form.ts';
import { CallIds } from './call-ids.ts';
import { encodePart } from './encode-part.ts';
import { extras } from './extras.ts';
import { redactedKind, signatureKind } from './reasoning-blobs.ts';

/** Encodes items as messages and the system prompt. Sources: docs/interfaces/README.md "Translation", "Refused, listed or dropped"; translation cases TR-01 to TR-20, RO-01, RO-02, RO-04, RE-01, RE-04. */

/** The encoded items of a request. */
export interface EncodedMessages {
  /** Undefined if there is no system prompt. */
  readonly system: Json | undefined;
  readonly messages: JsonObject[];
}

/** Encodes messages in the order of the items. `provider`: the upstream's name; reasoning signatures of other providers are dropped. Throws `unsupported_parameter`. */
export function encodeMessages(request: GenerateRequest, drops: Drops, provider: string | undefined): EncodedMessages {
  const encoder = new MessageEncoder(request, drops, provider);
  for (const item of request.items) encoder.add(item);
  return { system: encoder.system, messages: encoder.messages };
}

/** A message that blocks can still be added to. */
interface OpenMessage {
  readonly role: 'user' | 'assistant';
  readonly turn: number;
  readonly blocks: JsonObject[];
  /** True if it has content that is not a tool result: no further result may be added, because results come first. */
  hasContent: boolean;
}

class MessageEncoder {
  readonly messages: JsonObject[] = [];
  readonly #request: GenerateRequest;
  readonly #drops: Drops;
  readonly #provider: string | undefined;
  readonly #ids = new CallIds();
  readonly #system: JsonObject[] = [];
  #open: OpenMessage | undefined;

  constructor(request: GenerateRequest, drops: Drops, provider: string | undefined) {
    this.#request = request;
    this.#drops = drops;
    this.#provider = provider;
    if (request.instructions !== undefined && request.instructions !== '') {
      this.#system.push({ type: 'text', text: request.instructions });
    }
  }

  get system(): Json | undefined {
    const [first] = this.#system;
    return first === undefined ? undefined : asContent(this.#system);
  }

  add(item: Item): void {
    const { content } = item;
    switch (content.case) {
      case 'message':
        return this.#addMessage(item, content.value);
      case 'reasoning':
        return this.#addReasoning(item);
      case 'toolCall':
        this.#message('assistant', item.turn).blocks.push(this.#call(item, content.value));
        return;
      case 'toolResult':
        return this.#addResult(item, content.value);
      default: {
        const isCarried = content.case === 'serverTool' || content.case === 'unknown';
        const own = isCarried ? extras.own(content.value) : undefined;
        if (own === undefined) throw unsupportedItem(item, this.#request);
        this.#message('assistant', item.turn).blocks.push(own);
      }
    }
  }

  /** Returns the message that an item belongs to: the open one, if role and turn match. */
  #message(role: OpenMessage['role'], turn: number): OpenMessage {
    const open = this.#open;
    if (open?.role === role && (open.turn === turn || (role === 'user' && turn === 0))) return open;
    return this.#begin(role, turn);
  }

  #begin(role: OpenMessage['role'], turn: number): OpenMessage {
    const blocks: JsonObject[] = [];
    this.messages.push({ role, content: blocks });
    this.#open = { role, turn, blocks, hasContent: false };
    return this.#open;
  }

  #addMessage(item: Item, message: Message): void {
    const isSystem = message.role === Role.SYSTEM || message.role === Role.DEVELOPER;
    const blocks = this.#encodeBlocks(message);
    if (isSystem && this.messages.length === 0) {
      this.#system.push(...blocks);
      return;
    }
    if (isSystem) {
      // Most models refuse instructions in the middle of a conversation, so they always become user text (translation case RO-01).
      this.#drops.add(fieldName(this.#request.endpoint, 'items'));
      const texts = blocks.map(block => ({
        ...block,
        text: `<system-reminder>\n${textIn(block['text'])}\n</system-reminder>`,
      }));
      this.#contentMessage('user', item.turn).blocks.push(...texts);
      return;
    }
    const role = message.role === Role.USER ? 'user' : 'assistant';
    this.#contentMessage(role, item.turn).blocks.push(...blocks);
  }

  /** Returns the message that content of a role is added to. User content is added after tool results, but a second user message of another turn begins a new message. */
  #contentMessage(role: OpenMessage['role'], turn: number): OpenMessage {
    const open = this.#open;
    const needsNewMessage =
      role === 'user' && open?.role === 'user' && open.hasContent && (turn === 0 || open.turn !== turn);
    const message = needsNewMessage ? this.#begin(role, turn) : this.#message(role, turn);
    message.hasContent = true;
    return message;
  }

  #encodeBlocks({ parts }: Message): JsonObject[] {
    const blocks = parts.map(part => this.#part(part));
    // The protocol refuses an empty text, unless it is the only content.
    const filled = blocks.filter(block => block['type'] !== 'text' || block['text'] !== '');
    return filled.length === 0 ? blocks.slice(0, 1) : filled;
  }

  #part(part: Part): JsonObject {
    return {
      ...encodePart(part, this.#request, this.#drops),
      ...extras.members(part.extra),
      ...cacheMember(part.cache),
    };
  }

  #call(item: Item, call: ToolCall): JsonObject {
    // Messages has no field for a call's signature.
    if (call.signature !== undefined) this.#drops.add(reasoningName(this.#request.endpoint));
    return {
      type: 'tool_use',
      id: this.#ids.ofCall(call.callId),
      name: call.name,
      input: encodeArguments(call, this.#drops),
      ...extras.members(item.extra),
      ...cacheMember(call.cache),
    };
  }

  #addResult(item: Item, { callId, parts, plain, isError, cache }: ToolResult): void {
    const open = this.#open;
    // Results come before all other content of their message.
    const fits = open?.role === 'user' && !open.hasContent && (item.turn === 0 || open.turn === item.turn);
    const message = fits ? open : this.#begin('user', item.turn);
    const [only] = parts;
    const text = parts.length === 1 && only?.content.case === 'text' ? only.content.value.text : undefined;
    const content = plain && (text !== undefined || only === undefined) ? text : parts.map(part => this.#part(part));
    message.blocks.push({
      type: 'tool_result',
      tool_use_id: this.#ids.ofResult(callId),
      ...(content === undefined ? {} : { content }),
      ...(isError ? { is_error: true } : {}),
      ...extras.members(item.extra),
      ...cacheMember(cache),
    });
  }

  /** Sends back reasoning only with a signature that this upstream can check; all other reasoning is dropped and listed. */
  #addReasoning(item: Item): void {
    if (item.content.case !== 'reasoning') return;
    const { parts, opaque } = item.content.value;
    const own = opaque.filter(blob => this.#canRead(blob));
    const signature = own.find(({ kind }) => kind === signatureKind)?.data;
    const hidden = own.filter(({ kind }) => kind === redactedKind);
    if (own.length < opaque.length || (signature === undefined && hidden.length === 0)) {
      this.#drops.add(reasoningName(this.#request.endpoint));
    }
    if (signature === undefined && hidden.length === 0) return;
    const { blocks } = this.#message('assistant', item.turn);
    const extra = extras.members(item.extra);
    if (signature !== undefined) {
      const thinking = parts
        .map(({ content }) => (content.case === 'reasoningText' ? content.value.text : ''))
        .join('');
      blocks.push({ type: 'thinking', thinking, signature, ...extra });
    }
    for (const { data } of hidden) blocks.push({ type: 'redacted_thinking', data, ...extra });
  }

  /** Returns whether the upstream can read a blob. A blob without a provider is accepted by its kind: Chat clients send such blobs, and the upstream checks them anyway. */
  #canRead({ provider, kind }: Opaque): boolean {
    if (kind !== signatureKind && kind !== redactedKind) return false;
    return provider === '' || provider === this.#provider;
  }
}

/** Returns content as Messages writes it: a single text without further members as a string, anything else as a list of blocks. */
export function asContent(blocks: readonly JsonObject[]): Json {
  const [only] = blocks;
  if (only === undefined || blocks.length > 1) return [...blocks];
  const isPlain = only['type'] === 'text' && Object.keys(only).length === 2;
  return isPlain ? textIn(only['text']) : [only];
}
