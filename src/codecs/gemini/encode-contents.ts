import {
  type Item,
  type Message,
  type Opaque,
  Role,
  type ToolCall,
  type ToolResult,
} from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { fieldName, reasoningName } from '../../generation/check/field-names.ts';
import type { JsonObject } from '../codec.ts';
import { type Drops, unsupportedItem } from '../drops.ts';
import { objectIn, exactJson } from '../json.ts';
import { madeCallId } from './call-id.ts';
import { encodeArguments } from '../free-form.ts';
import { encodePart } from './encode-part.ts';
import type { ModelTraits } from './model-traits.ts';
import { extras } from './extras.ts';
import { canRead, partSignatureKind, skipCheck, reasoningSignatureKind } from './signature.ts';
import type { FunctionResponse, GeminiContent, GeminiPart, InlineData } from './wire.ts';

/** Encodes items as contents and the system instruction. Sources: docs/providers.md "The Gemini protocol"; docs/interfaces/README.md "Translation", "Refused, listed or dropped"; translation cases GE-01, GE-02, GE-05, RE-22, TR-17. */

/** The encoded items of a request. */
export interface EncodedContents {
  /** The parts of the system instruction; empty if there is none. */
  readonly system: GeminiPart[];
  readonly contents: GeminiContent[];
}

/** The encoder's arguments besides the request. */
export interface ContentsContext {
  readonly traits: ModelTraits;
  /** The provider; only signatures that it made are sent. */
  readonly provider: string | undefined;
}

/** Encodes contents in the order of the items. Throws `unsupported_parameter`. */
export function encodeContents(request: GenerateRequest, context: ContentsContext, drops: Drops): EncodedContents {
  const encoder = new ContentsEncoder(request, context, drops);
  for (const item of request.items) encoder.add(item);
  encoder.end();
  return { system: encoder.system, contents: encoder.contents };
}

class ContentsEncoder {
  readonly system: GeminiPart[] = [];
  readonly contents: GeminiContent[] = [];
  readonly #request: GenerateRequest;
  readonly #context: ContentsContext;
  readonly #drops: Drops;
  /** Tool names by call id, for results that don't have the name. */
  readonly #names = new Map<string, string>();
  /** A signature whose part has not come yet. */
  #pending: string | undefined;
  /** True if the last content consists of tool results. */
  #resultsOpen = false;
  /** True if the model's content that is being written already has a call: only the first of several parallel calls is signed. */
  #hasCall = false;

  constructor(request: GenerateRequest, context: ContentsContext, drops: Drops) {
    this.#request = request;
    this.#context = context;
    this.#drops = drops;
    const { instructions } = request;
    if (instructions !== undefined && instructions !== '') this.system.push({ text: instructions });
  }

  add(item: Item): void {
    const { content } = item;
    switch (content.case) {
      case 'message':
        return this.#addMessage(content.value);
      case 'reasoning':
        return this.#addReasoning(item);
      case 'toolCall':
        return this.#addCall(content.value);
      case 'toolResult':
        return this.#addResult(content.value);
      default: {
        const own = content.case === 'serverTool' ? extras.own(content.value) : undefined;
        if (own === undefined) throw unsupportedItem(item, this.#request);
        this.#model().push(own);
      }
    }
  }

  end(): void {
    this.#flushSignature();
  }

  /** Returns the parts of the model's content that output is added to: consecutive output is one content. */
  #model(): GeminiPart[] {
    this.#resultsOpen = false;
    const last = this.contents.at(-1);
    if (last?.role === 'model') return last.parts;
    return this.#begin('model');
  }

  /** Begins a new content, so that two messages in a row are not joined. */
  #begin(role: GeminiContent['role']): GeminiPart[] {
    this.#flushSignature();
    const parts: GeminiPart[] = [];
    this.contents.push({ role, parts });
    this.#resultsOpen = false;
    this.#hasCall = false;
    return parts;
  }

  #addMessage({ role, parts, name }: Message): void {
    if (name !== '') this.#drops.add('name');
    const encoded = parts.flatMap(part => {
      const encoded = encodePart(part, this.#request, this.#drops);
      return encoded === undefined ? [] : [this.#signed(encoded, part.signature)];
    });
    if (role === Role.ASSISTANT) {
      this.#flushSignature();
      if (encoded.length > 0) this.#model().push(...encoded);
      return;
    }
    if (encoded.length === 0) return;
    if (role === Role.USER) {
      this.#begin('user').push(...encoded);
    } else if (this.contents.length === 0) {
      this.system.push(...encoded);
    } else {
      // The protocol has one system instruction, before all contents; later ones become user text (translation case GE-05).
      this.#drops.add(fieldName(this.#request.endpoint, 'items'));
      const reminders = encoded.map(part => ({ text: `<system-reminder>\n${part.text ?? ''}\n</system-reminder>` }));
      this.#begin('user').push(...reminders);
    }
  }

  #signed(part: GeminiPart, signature: Opaque | undefined): GeminiPart {
    if (signature === undefined) return part;
    if (canRead(signature, this.#context.provider)) return { ...part, thoughtSignature: signature.data };
    this.#dropReasoning();
    return part;
  }

  #dropReasoning(): void {
    this.#drops.add(reasoningName(this.#request.endpoint));
  }

  /** Sends a signature whose call never came as a separate part, as upstreams do. */
  #flushSignature(): void {
    const signature = this.#pending;
    if (signature === undefined) return;
    this.#pending = undefined;
    this.#model().push({ text: '', thoughtSignature: signature });
  }

  /** Sends reasoning back only if it is signed; a signature is added to the part that follows. */
  #addReasoning({ content }: Item): void {
    if (content.case !== 'reasoning') return;
    const { parts, opaque } = content.value;
    const own = opaque.filter(blob => canRead(blob, this.#context.provider));
    if (own.length < opaque.length || own.length === 0) this.#dropReasoning();
    for (const { kind, data } of own) {
      if (kind === reasoningSignatureKind) {
        const text = parts.map(part => (part.content.case === 'summaryText' ? part.content.value.text : '')).join('');
        this.#model().push({ text, thought: true, thoughtSignature: data });
      } else if (kind === partSignatureKind) {
        this.#flushSignature();
        this.#pending = data;
      }
    }
  }

  #addCall(call: ToolCall): void {
    const { callId, name, signature } = call;
    this.#names.set(callId, name);
    const own = signature !== undefined && canRead(signature, this.#context.provider) ? signature.data : undefined;
    if (signature !== undefined && own === undefined) this.#dropReasoning();
    if (own !== undefined) this.#flushSignature();
    const waiting = this.#pending;
    this.#pending = undefined;
    const parts = this.#model();
    const skipped = this.#context.traits.checksSignatures && !this.#hasCall ? skipCheck : undefined;
    const thoughtSignature = own ?? waiting ?? skipped;
    this.#hasCall = true;
    parts.push({
      functionCall: { ...idMember(callId), name, args: encodeArguments(call, this.#drops) },
      ...(thoughtSignature === undefined ? {} : { thoughtSignature }),
    });
  }

  /** Adds a result; all results that follow the model's calls are in one content. */
  #addResult(result: ToolResult): void {
    this.#flushSignature();
    const last = this.contents.at(-1);
    const parts = this.#resultsOpen && last !== undefined ? last.parts : this.#begin('user');
    this.#resultsOpen = true;
    const { callId, name } = result;
    const encoded = result.parts.flatMap(part => encodePart(part, this.#request, this.#drops) ?? []);
    const text = encoded.map(part => part.text ?? '').join('');
    const media = encoded.filter(part => part.text === undefined);
    const inside = this.#context.traits.mediaInResults ? media.flatMap(encodeInline) : [];
    const response: FunctionResponse = {
      ...idMember(callId),
      name: name === '' ? (this.#names.get(callId) ?? 'unknown') : name,
      response: encodeResponse(text, result.isError),
    };
    parts.push({ functionResponse: inside.length === 0 ? response : { ...response, parts: inside } });
    parts.push(...media.filter(part => inside.length === 0 || part.inlineData === undefined));
  }
}

/** Returns the id of a call as a member. An id that the gateway assigned is not sent, because the upstream does not know it. */
function idMember(callId: string): { id?: string } {
  return callId === '' || madeCallId.test(callId) ? {} : { id: callId };
}

function encodeInline({ inlineData }: GeminiPart): { inlineData: InlineData }[] {
  return inlineData === undefined ? [] : [{ inlineData }];
}

/** Returns a result as the object that the protocol requires: a JSON object of the tool unchanged, any other text as the member `output` (translation case GE-02). */
function encodeResponse(text: string, isError: boolean): JsonObject {
  if (isError) return { error: text };
  return objectIn(exactJson(text)) ?? { output: text };
}
