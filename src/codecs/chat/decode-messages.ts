import { type Extra, type Item, type Part, Role, ToolKind } from '../../gen/tollgate/v1/content_pb.ts';
import { cacheHint } from '../cache-hint.ts';
import * as make from '../content.ts';
import { invalidField, members, type UnknownMembers, UnknownValue } from '../schema.ts';
import { inOrder } from './assistant-order.ts';
import { extras } from './extras.ts';
import { type PlacedReasoning, readReasoningDetails } from './reasoning-details.ts';
import { type ChatMessage, type ChatPart, type ChatToolCall, messageMembers, partMembers } from './request-schema.ts';

/** Decodes Chat Completions messages to items. Sources: docs/architecture.md "The form of a generation"; docs/interfaces/README.md "Translation". */

type AssistantMessage = ChatMessage & { role: 'assistant' };

const knownImageMembers = members('url', 'detail');
const knownAudioMembers = members('data', 'format');
const knownFileMembers = members('file_data', 'file_id', 'filename');
/** `index` exists only in streams, but programs that assemble a stream into a message send it back. */
const knownCallMembers = members('id', 'type', 'index', 'function', 'custom');
const knownCallWithSignatureMembers = members('id', 'type', 'index', 'function', 'custom', 'extra_content');
const knownFunctionCallMembers = members('name', 'arguments', 'parsed_arguments');
const knownCustomCallMembers = members('name', 'input');

/** Returns items in the order of the messages. Throws `validation_error`. */
export function decodeMessages(messages: readonly (ChatMessage | UnknownValue)[], unknown: UnknownMembers): Item[] {
  const decoder = new MessageDecoder(unknown);
  let index = 0;
  for (const message of messages) {
    decoder.add(message, index);
    index += 1;
  }
  return decoder.items;
}

const roles = { system: Role.SYSTEM, developer: Role.DEVELOPER, user: Role.USER } as const;

class MessageDecoder {
  readonly items: Item[] = [];
  readonly #unknown: UnknownMembers;
  /** The ids that were assigned to calls in the deprecated form, by function name: a result in that form has only the name. */
  #legacyCalls: Map<string, string> | undefined;

  constructor(unknown: UnknownMembers) {
    this.#unknown = unknown;
  }

  add(message: ChatMessage | UnknownValue, index: number): void {
    const path = `messages.${index}`;
    if (message instanceof UnknownValue) {
      this.items.push(make.makeItem(this.#unknown.content(message, path), 0));
      return;
    }
    const extra = this.#unknown.collect(message, messageMembers[message.role], path);
    switch (message.role) {
      case 'assistant':
        return this.#assistant(message, index, extra);
      case 'tool': {
        const plain = typeof message.content === 'string';
        const parts = this.#parts(message.content, path);
        const callId = message.tool_call_id ?? this.#onlyOpenCall(path);
        this.items.push(make.makeItem(make.toolResultContent({ callId, parts, plain }), 0, extra));
        return;
      }
      case 'function': {
        const callId = this.#legacyCalls?.get(message.name) ?? `call_${message.name}`;
        const parts = [make.makePart(make.textContent(message.content ?? ''))];
        this.items.push(
          make.makeItem(make.toolResultContent({ callId, name: message.name, parts, plain: true }), 0, extra),
        );
        return;
      }
      default: {
        const parts = this.#parts(message.content, path);
        this.items.push(make.makeItem(make.messageContent(roles[message.role], parts, message.name ?? ''), 0, extra));
      }
    }
  }

  /** Returns the id of the only call that has no result yet, which a result without an id answers. Throws if there is not exactly one. */
  #onlyOpenCall(path: string): string {
    const open = new Set<string>();
    for (const { content } of this.items) {
      if (content.case === 'toolCall') open.add(content.value.callId);
      else if (content.case === 'toolResult') open.delete(content.value.callId);
    }
    const [callId] = open;
    if (callId !== undefined && open.size === 1) return callId;
    throw invalidField(`${path}.tool_call_id`, 'is required unless exactly one call has no result', 'invalid_type');
  }

  #assistant(message: AssistantMessage, index: number, extra: Extra | undefined): void {
    const path = `messages.${index}`;
    const turn = index + 1;
    const first = this.items.length;
    const reasoning = this.#reasoning(message, turn);
    const calls = message.tool_calls ?? [];
    const isAbsent = message.content == null || (Array.isArray(message.content) && message.content.length === 0);
    const content = message.content == null || message.content === '' ? [] : this.#parts(message.content, path);
    const thought = content.filter(isReasoning);
    const parts = content.filter(part => !isReasoning(part));
    if (thought.length > 0) reasoning.unshift(placedFirst(thought, turn));
    if (message.refusal != null && message.refusal !== '')
      parts.push(make.makePart(make.refusalContent(message.refusal)));
    const hasOtherItems = calls.length > 0 || message.function_call != null || reasoning.length > 0;
    if (isAbsent && parts.length === 0 && !hasOtherItems && extra === undefined) {
      throw invalidField(`${path}.content`, 'is required unless the message has tool calls', 'invalid_type');
    }
    const contents =
      parts.length === 0 && hasOtherItems ? [] : [make.messageContent(Role.ASSISTANT, parts, message.name ?? '')];
    const called = calls.map((call, at) => this.#call(call, `${path}.tool_calls.${at}`, turn));
    this.items.push(...inOrder({ reasoning, messages: contents.map(content => make.makeItem(content, turn)), called }));
    if (message.function_call != null) this.items.push(this.#legacyCall(message.function_call, turn));
    const head = this.items[first];
    if (extra !== undefined && head !== undefined) head.extra = merged(extra, head.extra);
  }

  #reasoning(message: AssistantMessage, turn: number): PlacedReasoning[] {
    const details = message.reasoning_details ?? [];
    if (details.length > 0) return readReasoningDetails(details, turn);
    const text = message.reasoning_content ?? message.reasoning ?? '';
    return text === '' ? [] : [placedFirst([make.makePart(make.reasoningTextContent(text))], turn)];
  }

  #call(call: ChatToolCall | UnknownValue, path: string, turn: number): Item {
    if (call instanceof UnknownValue) return make.makeItem(this.#unknown.content(call, path), turn);
    const signature = call.type === 'function' ? readGoogleSignature(call.extra_content) : undefined;
    const extra = this.#unknown.collect(
      call,
      signature === undefined ? knownCallMembers : knownCallWithSignatureMembers,
      path,
    );
    if (call.type === 'custom') {
      const { name, input } = call.custom;
      this.#unknown.list(call.custom, knownCustomCallMembers, `${path}.custom`);
      const content = make.toolCallContent({ callId: call.id, name, kind: ToolKind.CUSTOM, arguments: input });
      return make.makeItem(content, turn, extra);
    }
    const { name, arguments: args } = call.function;
    this.#unknown.list(call.function, knownFunctionCallMembers, `${path}.function`);
    const signed = signature === undefined ? {} : { signature: make.makeOpaque('gemini.thought_signature', signature) };
    return make.makeItem(make.toolCallContent({ callId: call.id, name, arguments: args, ...signed }), turn, extra);
  }

  #legacyCall(call: { readonly name: string; readonly arguments: string }, turn: number): Item {
    const callId = `call_${turn}`;
    this.#legacyCalls ??= new Map();
    this.#legacyCalls.set(call.name, callId);
    return make.makeItem(make.toolCallContent({ callId, name: call.name, arguments: call.arguments }), turn);
  }

  #parts(content: string | readonly (ChatPart | UnknownValue)[], path: string): Part[] {
    if (typeof content === 'string') return [make.makePart(make.textContent(content))];
    return content.map((part, index) => this.#part(part, `${path}.content.${index}`));
  }

  #part(part: ChatPart | UnknownValue, path: string): Part {
    if (part instanceof UnknownValue) return make.makePart(this.#unknown.content(part, path));
    const extra = this.#unknown.collect(part, partMembers[part.type], path);
    const result = make.makePart(this.#content(part, path), extra);
    return part.type === 'refusal' || part.type === 'thinking' ? result : Object.assign(result, cacheHint(part));
  }

  #content(part: ChatPart, path: string): Part['content'] {
    switch (part.type) {
      case 'text':
        return make.textContent(part.text);
      case 'refusal':
        return make.refusalContent(part.refusal);
      case 'image_url':
        this.#unknown.list(part.image_url, knownImageMembers, `${path}.image_url`);
        return make.imageContent(
          imageSource(part.image_url.url, `${path}.image_url.url`),
          this.#unknown.knownOrWarn(part.image_url.detail, `${path}.image_url.detail`) ?? '',
        );
      case 'input_audio': {
        this.#unknown.list(part.input_audio, knownAudioMembers, `${path}.input_audio`);
        const { data, format } = part.input_audio;
        if (!make.isBase64(data)) throw invalidField(`${path}.input_audio.data`, 'must be base64');
        const source = make.mediaSource({ case: 'base64', value: data }, `audio/${format}`);
        return { case: 'audio', value: { $typeName: 'tollgate.v1.AudioPart', source, format } };
      }
      case 'document_url': {
        const source = imageSource(part.document_url, `${path}.document_url`);
        return fileFrom(source, part.document_name);
      }
      case 'thinking':
        return make.reasoningTextContent(readThinking(part.thinking));
      case 'file':
        this.#unknown.list(part.file, knownFileMembers, `${path}.file`);
        return fileContent(part.file, `${path}.file`);
    }
  }
}

/** Returns Gemini's signature, if `extra_content` contains nothing else. */
function readGoogleSignature(extraContent: object | null | undefined): string | undefined {
  const { google } = (extraContent ?? {}) as { google?: unknown };
  const { thought_signature: signature } = (google ?? {}) as { thought_signature?: unknown };
  const alone = Object.keys(extraContent ?? {}).length === 1 && Object.keys(google ?? {}).length === 1;
  return alone && typeof signature === 'string' ? signature : undefined;
}

function merged(extra: Extra, other: Extra | undefined): Extra {
  if (other === undefined) return extra;
  return extras.of({ ...extras.members(other), ...extras.members(extra) });
}

const isAddress = (text: string): boolean => /^https?:\/\/[^/]/i.test(text);

function imageSource(url: string, path: string): ReturnType<typeof make.mediaSource> {
  if (!url.startsWith('data:')) {
    if (!isAddress(url)) throw invalidField(path, 'must be an http(s) address or a base64 data URL');
    return make.mediaSource({ case: 'url', value: url });
  }
  const data = make.parseDataUrl(url);
  if (data === undefined || !make.isBase64(data.base64)) {
    throw invalidField(path, 'must be a data URL of the form data:image/png;base64,…');
  }
  return make.mediaSource({ case: 'base64', value: data.base64 }, data.mediaType);
}

const isReasoning = ({ content }: Part): boolean => content.case === 'reasoningText';

/** Returns the reasoning that comes before everything else of an assistant's message. */
function placedFirst(parts: Part[], turn: number): PlacedReasoning {
  return { item: make.makeItem(make.reasoningContent({ parts }), turn), place: { calls: 0, text: 0 } };
}

function readThinking(thinking: string | readonly { readonly text?: string | null | undefined }[]): string {
  return typeof thinking === 'string' ? thinking : thinking.map(({ text }) => text ?? '').join('');
}

function fileFrom(source: ReturnType<typeof make.mediaSource>, name: string | null | undefined): Part['content'] {
  const named = { filename: name ?? '', title: '', context: '' };
  return { case: 'file', value: { $typeName: 'tollgate.v1.FilePart', source, ...named } };
}

interface ChatFile {
  readonly file_data?: string | null | undefined;
  readonly file_id?: string | null | undefined;
  readonly filename?: string | null | undefined;
}

function fileContent(file: ChatFile, path: string): Part['content'] {
  const content = (source: ReturnType<typeof make.mediaSource>): Part['content'] => fileFrom(source, file.filename);
  if (file.file_data != null) {
    if (isAddress(file.file_data)) return content(make.mediaSource({ case: 'url', value: file.file_data }));
    const data = make.parseDataUrl(file.file_data);
    const base64 = data?.base64 ?? file.file_data;
    if (!make.isBase64(base64))
      throw invalidField(`${path}.file_data`, 'must be base64, a base64 data URL or an http(s) address');
    return content(make.mediaSource({ case: 'base64', value: base64 }, data?.mediaType));
  }
  if (file.file_id != null) return content(make.mediaSource({ case: 'fileId', value: file.file_id }));
  throw invalidField(path, 'needs `file_data` or `file_id`');
}
