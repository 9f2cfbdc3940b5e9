import {
  type Item,
  type MediaSource,
  type Message,
  type Opaque,
  type Part,
  Role,
  type ToolCall,
  type ToolResult,
} from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import type { Json, JsonObject } from '../codec.ts';
import { type Drops, unsupportedContent, unsupportedItem, unsupportedPart } from '../drops.ts';
import { reasoningName } from '../../generation/check/field-names.ts';
import { callIdFor } from '../../generation/call-id.ts';
import { searchResultText } from '../search-result.ts';
import { renderItemDetails, readReasoningText } from './reasoning-details.ts';
import { extras } from './extras.ts';
import { callMembers } from './tool-call.ts';

/**
 * Encodes items as Chat Completions messages. Sources: docs/interfaces/README.md "Translation", "Refused, listed or dropped"; cases
 * TR-05, TR-13, TR-14, RE-25, RO-04, RO-07, ME-07.
 */

/**
 * Encodes messages in the order of the items, instructions first. Only reasoning blobs that `provider` made are included.
 * Throws `unsupported_parameter`.
 */
export function encodeMessages(request: GenerateRequest, drops: Drops, provider: string | undefined): JsonObject[] {
  const encoder = new MessageEncoder(request, drops, provider);
  for (const item of request.items) encoder.add(item);
  return encoder.end();
}

/** An assistant message that is being assembled. Chat has a single field for all its text. */
interface AssistantTurn {
  readonly turn: number;
  name: string;
  text: string | undefined;
  refusal: string;
  readonly reasoning: Item[];
  readonly calls: JsonObject[];
  extra: JsonObject;
}

class MessageEncoder {
  readonly #request: GenerateRequest;
  readonly #drops: Drops;
  readonly #provider: string | undefined;
  readonly #messages: JsonObject[] = [];
  #assistant: AssistantTurn | undefined;
  /** Images and files of tool results. Chat's `tool` messages can't contain them, so they are sent in a user message that follows. */
  #media: JsonObject[] = [];

  constructor(request: GenerateRequest, drops: Drops, provider: string | undefined) {
    this.#request = request;
    this.#drops = drops;
    this.#provider = provider;
    if (request.instructions !== undefined) this.#messages.push({ role: 'system', content: request.instructions });
  }

  add(item: Item): void {
    const { content } = item;
    if (content.case !== 'toolResult') this.#endResults();
    switch (content.case) {
      case 'message':
        if (content.value.role === Role.ASSISTANT) return this.#addAssistantText(item, content.value);
        this.#endAssistant();
        return this.#addMessage(item, content.value);
      case 'reasoning':
        this.#findTurn(item).reasoning.push(item);
        return;
      case 'toolCall':
        this.#findTurn(item).calls.push(this.#call(item, content.value));
        return;
      case 'toolResult':
        this.#endAssistant();
        return this.#addResult(item, content.value);
      default: {
        const own = content.case === 'unknown' ? extras.own(content.value) : undefined;
        if (own === undefined) throw unsupportedItem(item, this.#request);
        this.#endAssistant();
        this.#messages.push(own);
      }
    }
  }

  end(): JsonObject[] {
    this.#endResults();
    this.#endAssistant();
    return this.#messages;
  }

  #refusal(what: string): Error {
    return unsupportedContent(this.#request, what);
  }

  #addMessage(item: Item, { role, name, parts }: Message): void {
    this.#messages.push({
      // Only OpenAI's own upstreams know `developer`, and they accept `system` as well.
      role: role === Role.USER ? 'user' : 'system',
      ...(name === '' ? {} : { name }),
      content: this.#content(parts),
      ...extras.members(item.extra),
    });
  }

  /** Encodes a tool call, with an id that Chat accepts: ids of other protocols may be too long. */
  #call(item: Item, call: ToolCall): JsonObject {
    return callMembers(item, { ...call, callId: callIdFor(call.callId) }, call.arguments);
  }

  /** Returns the assistant message that an item belongs to: adjacent items with the same `turn` share one. */
  #findTurn(item: Item): AssistantTurn {
    if (this.#assistant !== undefined && this.#assistant.turn !== item.turn) this.#endAssistant();
    this.#assistant ??= {
      turn: item.turn,
      name: '',
      text: undefined,
      refusal: '',
      reasoning: [],
      calls: [],
      extra: {},
    };
    const members = extras.members(item.extra);
    if (item.content.case === 'message') Object.assign(this.#assistant.extra, members);
    return this.#assistant;
  }

  #addAssistantText(item: Item, { name, parts }: Message): void {
    const turn = this.#findTurn(item);
    turn.name = name;
    turn.text ??= '';
    for (const part of parts) {
      const { content } = part;
      if (content.case === 'text') turn.text += content.value.text;
      else if (content.case === 'refusal') turn.refusal += content.value.text;
      else throw unsupportedPart(part, this.#request, ' in messages of the assistant');
    }
  }

  #endAssistant(): void {
    const turn = this.#assistant;
    if (turn === undefined) return;
    this.#assistant = undefined;
    const hasText = turn.text !== undefined && turn.text !== '';
    const mayLackText = turn.calls.length > 0 || turn.refusal !== '' || turn.reasoning.length > 0;
    this.#messages.push({
      role: 'assistant',
      ...(turn.name === '' ? {} : { name: turn.name }),
      content: hasText || !mayLackText ? (turn.text ?? '') : null,
      ...(turn.refusal === '' ? {} : { refusal: turn.refusal }),
      ...this.#encodeReasoning(turn.reasoning),
      ...(turn.calls.length === 0 ? {} : { tool_calls: turn.calls }),
      ...turn.extra,
    });
  }

  /**
   * Encodes reasoning as text, which upstreams that reason between calls require. Blobs are sent only to the provider that
   * made them; others are dropped and listed.
   */
  #encodeReasoning(items: readonly Item[]): JsonObject {
    if (items.length === 0) return {};
    let text = '';
    let hasBlobs = false;
    const details: JsonObject[] = [];
    for (const [index, item] of items.entries()) {
      if (item.content.case !== 'reasoning') continue;
      const { parts, opaque } = item.content.value;
      const readable = opaque.filter(blob => this.#canRead(blob));
      if (readable.length < opaque.length) this.#drops.add(reasoningName(this.#request.endpoint));
      hasBlobs ||= readable.length > 0;
      text += parts.map(readReasoningText).join('');
      details.push(...renderItemDetails(item, index, { opaque: readable }));
    }
    return {
      ...(text === '' ? {} : { reasoning_content: text }),
      ...(details.length > 0 && (hasBlobs || items.length > 1) ? { reasoning_details: details } : {}),
    };
  }

  /**
   * Returns whether the provider can read a blob. A blob without a provider is sent only in a request that was made through the contract
   * itself, whose caller must know where the blob came from; from a client of a wire protocol its origin is unknown.
   */
  #canRead({ provider }: Opaque): boolean {
    return provider === '' ? this.#request.source === undefined : provider === this.#provider;
  }

  #addResult(item: Item, { callId, parts, isError }: ToolResult): void {
    const texts: string[] = [];
    for (const part of parts) {
      if (part.content.case === 'text') texts.push(part.content.value.text);
      else if (part.content.case === 'searchResult') texts.push(searchResultText(part.content.value.json));
      else {
        this.#media.push(this.#part(part));
        texts.push(`[${part.content.case ?? 'part'} ${this.#media.length} of tool call ${callId} follows]`);
      }
    }
    if (isError) {
      this.#drops.add('is_error');
      texts[0] = `Error: ${texts[0] ?? ''}`;
    }
    const content: Json = texts.length > 1 ? texts.map(text => ({ type: 'text', text })) : (texts[0] ?? '');
    this.#messages.push({ role: 'tool', tool_call_id: callIdFor(callId), content, ...extras.members(item.extra) });
  }

  #endResults(): void {
    if (this.#media.length === 0) return;
    this.#messages.push({ role: 'user', content: this.#media });
    this.#media = [];
  }

  #content(parts: readonly Part[]): Json {
    const [only] = parts;
    if (only === undefined) return '';
    if (parts.length === 1 && only.content.case === 'text' && only.extra === undefined) return only.content.value.text;
    return parts.map(part => this.#part(part));
  }

  #part(part: Part): JsonObject {
    return { ...this.#partMembers(part), ...extras.members(part.extra) };
  }

  #partMembers(part: Part): JsonObject {
    const { content } = part;
    switch (content.case) {
      case 'text':
        return { type: 'text', text: content.value.text };
      case 'image': {
        const { source, detail } = content.value;
        const url = this.#toUrl(source, 'images by file id');
        return { type: 'image_url', image_url: { url, ...(detail === '' ? {} : { detail }) } };
      }
      case 'audio': {
        const { source, format } = content.value;
        if (source?.source.case !== 'base64') throw this.#refusal('audio by URL');
        return { type: 'input_audio', input_audio: { data: source.source.value, format } };
      }
      case 'file':
        return this.#file(content.value);
      case 'searchResult':
        return { type: 'text', text: searchResultText(content.value.json) };
      default: {
        const own = content.case === 'unknown' ? extras.own(content.value) : undefined;
        if (own === undefined) throw unsupportedPart(part, this.#request);
        return own;
      }
    }
  }

  #toUrl(source: MediaSource | undefined, what: string): string {
    if (source?.source.case === 'url') return source.source.value;
    if (source?.source.case === 'base64') return `data:${source.mediaType};base64,${source.source.value}`;
    throw this.#refusal(what);
  }

  #file({
    source,
    filename,
    title,
    context,
    citations,
  }: Extract<Part['content'], { case: 'file' }>['value']): JsonObject {
    if (citations === true) this.#drops.add('citations');
    const name = filename === '' ? title : filename;
    switch (source?.source.case) {
      case 'text': {
        const lines = [name, context, source.source.value].filter(line => line !== '');
        return { type: 'text', text: lines.join('\n\n') };
      }
      case 'base64': {
        const data = source.mediaType === '' ? source.source.value : this.#toUrl(source, 'this file');
        return { type: 'file', file: { file_data: data, ...(name === '' ? {} : { filename: name }) } };
      }
      case 'fileId':
        if (this.#request.source !== undefined) throw this.#refusal('files of another provider by id');
        return { type: 'file', file: { file_id: source.source.value, ...(name === '' ? {} : { filename: name }) } };
      default:
        throw this.#refusal('files by URL');
    }
  }
}
