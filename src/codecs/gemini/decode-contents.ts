import { type Item, type Opaque, type Part, Role } from '../../gen/tollgate/v1/content_pb.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import { reasoningName } from '../../generation/check/field-names.ts';
import type { JsonObject } from '../codec.ts';
import * as make from '../content.ts';
import { objectIn } from '../json.ts';
import { invalidField, members, type UnknownMembers, UnknownValue } from '../schema.ts';
import { ClientCallIds } from './client-call-ids.ts';
import { decodeMedia } from './decode-media.ts';
import { extras } from './extras.ts';
import type { GeminiClientContent, GeminiClientPart } from './request-schema.ts';
import type { SentTexts } from '../sent-body.ts';
import { openSeal } from './sealed-signature.ts';
import { partSignatureKind, placeholders, reasoningSignatureKind } from './signature.ts';

/**
 * Decodes contents to items, in the order of the parts. Consecutive contents of the model are one turn: clients make a content of each chunk of a
 * stream. Source: docs/interfaces/gemini.md "Request", "Signatures".
 */

const knownContentMembers = members('role', 'parts');
const knownPartMembers = members(
  'text',
  'thought',
  'thoughtSignature',
  'inlineData',
  'fileData',
  'functionCall',
  'functionResponse',
  'videoMetadata',
  'mediaResolution',
  'executableCode',
  'codeExecutionResult',
  'toolCall',
  'toolResponse',
);
/** Parts of tools that Google's service runs. They are carried unchanged. */
const serverParts = ['executableCode', 'codeExecutionResult', 'toolCall', 'toolResponse'];
const roles: Readonly<Record<string, Role>> = { user: Role.USER, function: Role.USER, model: Role.ASSISTANT };

/** Where a part is. */
interface Place {
  readonly path: string;
  readonly turn: number;
}

/** Decodes contents to items. */
export class ContentsDecoder {
  readonly items: Item[] = [];
  readonly #unknown: UnknownMembers;
  readonly #texts: SentTexts;
  readonly #ids = new ClientCallIds();
  #turn = 0;
  #lastRole: Role = Role.UNSPECIFIED;
  /** Thoughts of the turn whose signature has not come: the texts, in order. */
  #thoughts: Part[] = [];
  /** The seals that the turn has already had: clients may send one on several parts. */
  readonly #seals = new Set<string>();

  constructor(unknown: UnknownMembers, texts: SentTexts) {
    this.#unknown = unknown;
    this.#texts = texts;
  }

  /** Adds the system instruction. Throws `validation_error` if it is not text. */
  addSystem(instruction: GeminiClientContent): void {
    const parts = (instruction.parts ?? []).map((part, index) => {
      if (typeof part.text === 'string') return make.makePart(make.textContent(part.text));
      throw invalidField(`systemInstruction.parts.${index}`, 'must be text');
    });
    if (parts.some(({ content }) => content.case === 'text' && content.value.text !== '')) {
      this.items.push(make.makeItem(make.messageContent(Role.SYSTEM, parts), 0));
    }
  }

  add(content: GeminiClientContent, index: number): void {
    const path = `contents.${index}`;
    const role = roles[content.role ?? 'user'];
    if (role === undefined) {
      this.#begin(Role.UNSPECIFIED);
      const value = new UnknownValue({ ...content }, ['user', 'model'], 'role');
      this.items.push(make.makeItem(this.#unknown.content(value, path), this.#turn));
      return;
    }
    if (role === Role.USER || this.#lastRole !== role) this.#begin(role);
    this.#unknown.list(content, knownContentMembers, path);
    const parts = content.parts ?? [];
    for (const [at, part] of parts.entries()) this.#add(part, role, `${path}.parts.${at}`);
    if (parts.length === 0) this.#message(role);
  }

  /** Returns the items. */
  end(): Item[] {
    this.#flushThoughts();
    return this.items;
  }

  #begin(role: Role): void {
    this.#flushThoughts();
    this.#seals.clear();
    this.#turn += 1;
    this.#lastRole = role;
  }

  #add(part: GeminiClientPart, role: Role, path: string): void {
    this.#unknown.list(part, knownPartMembers, path);
    const place = { path, turn: this.#turn };
    const signature = this.#signature(part, place);
    if (part.thought === true) return this.#addThought(part, signature);
    this.#flushThoughts();
    if (part.functionCall != null) return this.#addCall(part.functionCall, signature, place);
    if (part.functionResponse != null) return this.#addResult(part.functionResponse, place);
    if (serverParts.some(name => part[name] != null)) {
      this.items.push(make.makeItem(extras.serverTool(part), this.#turn));
      return;
    }
    const content = this.#content(part, place);
    const isEmpty = content.case === 'text' && content.value.text === '';
    if (isEmpty && role === Role.ASSISTANT && signature === undefined) return;
    const made = make.makePart(content);
    if (signature !== undefined) made.signature = signature;
    this.#message(role).push(made);
  }

  #content(part: GeminiClientPart, { path }: Place): Part['content'] {
    if (typeof part.text === 'string') return make.textContent(part.text);
    const media = decodeMedia(part, path);
    if (media !== undefined) return media;
    const value = new UnknownValue({ ...part }, ['text', 'inlineData', 'fileData', 'functionCall', 'functionResponse']);
    return this.#unknown.content(value, path);
  }

  /**
   * Returns a part's signature if it is Google's, or adds the reasoning that it seals. Throws `validation_error` if a seal was changed.
   */
  #signature({ thoughtSignature }: GeminiClientPart, { path, turn }: Place): Opaque | undefined {
    if (thoughtSignature == null || thoughtSignature === '') return undefined;
    if (placeholders.has(thoughtSignature)) {
      this.#unknown.paths.push(reasoningName(Endpoint.GEMINI));
      return undefined;
    }
    const sealed = openSeal(thoughtSignature);
    if (sealed === 'changed') {
      throw invalidField(`${path}.thoughtSignature`, 'was changed: send it back as it came, or leave it out');
    }
    if (sealed === undefined) return make.makeOpaque(partSignatureKind, thoughtSignature);
    const { blobs, parts, extra } = sealed;
    const key = JSON.stringify([blobs.map(({ kind, data }) => [kind, data]), parts?.length]);
    // The seal contains the thoughts, so that those that the client has sent are not needed.
    this.#thoughts = [];
    if (this.#seals.has(key)) return undefined;
    this.#seals.add(key);
    this.items.push(make.makeItem(make.reasoningContent({ parts: parts ?? [], opaque: blobs }), turn, extra));
    return undefined;
  }

  #addThought({ text }: GeminiClientPart, signature: Opaque | undefined): void {
    if (text != null && text !== '') this.#thoughts.push(make.makePart(make.summaryTextContent(text)));
    if (signature === undefined) return;
    const opaque = [{ ...signature, kind: reasoningSignatureKind }];
    const parts = this.#thoughts.splice(0);
    this.items.push(make.makeItem(make.reasoningContent({ parts, opaque }), this.#turn));
  }

  #flushThoughts(): void {
    if (this.#thoughts.length === 0) return;
    const [first] = this.#thoughts;
    const text = this.#thoughts
      .map(({ content }) => (content.case === 'summaryText' ? content.value.text : ''))
      .join('');
    this.#thoughts = [];
    if (first === undefined) return;
    const parts = [make.makePart(make.summaryTextContent(text))];
    this.items.push(make.makeItem(make.reasoningContent({ parts }), this.#turn));
  }

  #addCall(call: GeminiClientPart['functionCall'] & object, signature: Opaque | undefined, { path }: Place): void {
    const { name, args } = call;
    const callId = this.#ids.ofCall(call, path);
    const signed = signature === undefined ? {} : { signature };
    const content = make.toolCallContent({ callId, name, arguments: this.#texts.write(args ?? {}), ...signed });
    this.items.push(make.makeItem(content, this.#turn));
  }

  #addResult(result: GeminiClientPart['functionResponse'] & object, { path }: Place): void {
    const { name, response, parts: media = [] } = result;
    const { text, isError } = readResponse(response ?? {}, this.#texts);
    const parts = [
      make.makePart(make.textContent(text)),
      ...(media ?? []).map((each, index) => {
        const content = decodeMedia(each, `${path}.functionResponse.parts.${index}`);
        if (content !== undefined) return make.makePart(content);
        throw invalidField(`${path}.functionResponse.parts.${index}`, 'must have inlineData or fileData');
      }),
    ];
    const plain = parts.length === 1;
    const content = make.toolResultContent({ callId: this.#ids.ofResult(result, path), name, parts, plain, isError });
    this.items.push(make.makeItem(content, this.#turn));
  }

  /** Returns the parts of the message that content is added to: the last item if it is a message of the same turn, else a new message. */
  #message(role: Role): Part[] {
    const last = this.items.at(-1);
    if (last?.turn === this.#turn && last.content.case === 'message') return last.content.value.parts;
    const parts: Part[] = [];
    this.items.push(make.makeItem(make.messageContent(role, parts), this.#turn));
    return parts;
  }
}

/** Returns a tool's result as text: by Google's convention `output` has the result and `error` its failure; any other object is the result. */
function readResponse(response: JsonObject, texts: SentTexts): { text: string; isError: boolean } {
  const names = Object.keys(response);
  const [only] = names;
  if (names.length !== 1 || only === undefined) return { text: texts.write(response), isError: false };
  const value = response[only];
  const text = typeof value === 'string' ? value : writeMember(response, only, texts);
  if (only === 'error') return { text, isError: true };
  // An object would be read as the result itself if it is sent back.
  const isPlain = only === 'output' && objectIn(value) === undefined;
  return { text: isPlain ? text : texts.write(response), isError: false };
}

/** Returns the JSON of the only member of an object. */
function writeMember(holder: JsonObject, name: string, texts: SentTexts): string {
  return texts.write(holder).slice(JSON.stringify(name).length + 2, -1);
}
