import { createHash } from 'node:crypto';
import { type Extra, ItemStatus, type Opaque, ToolKind } from '../../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, ExtensionScope, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { delta, extension, itemClosed, itemOpened } from '../../generation/events.ts';
import { exactText } from '../../lib/exact-json.ts';
import type { Json, JsonObject } from '../codec.ts';
import { makeItem, makeOpaque, toolCallContent } from '../content.ts';
import { countIn, isWholeJson, objectIn, textIn } from '../json.ts';
import { findUnknownMembers, makeShape } from '../unknown-members.ts';
import { malformed } from '../upstream-error.ts';
import { extras } from './extras.ts';

/** A call that an upstream is writing. */
interface Call {
  /** '' until it is known. */
  id: string;
  name: string;
  isCustom: boolean;
  /** The arguments written so far. */
  arguments: string;
  /** The item's number; undefined until it is opened. */
  item: number | undefined;
  isClosed: boolean;
  signature: Opaque | undefined;
  extra: Extra | undefined;
}

/** The facts about its choice that the parser of tool calls needs. */
export interface CallContext {
  readonly choice: number;
  readonly provider: string;
  /** Returns the upstream's id of the answer, from which missing call ids are derived. */
  readonly answerId: () => string;
  /** Ends the text and reasoning before a call and returns the next item's number. */
  readonly openItem: (events: GenerationEvent[]) => number;
}

const called = { function: makeShape('name arguments'), custom: makeShape('name input') };
const known = makeShape('id type index', called);
const knownWithSignature = makeShape('id type index extra_content', called);

/**
 * Parses the tool calls of a choice. Upstreams distinguish them by index, by id, by position in the list, or by a new name, and may interleave
 * them. Source: docs/interfaces/chat-completions.md "Stream"; translation cases TS-04, TS-05, TS-08, TS-16, TS-17, TS-24, RE-23.
 */
export class ToolCallsParser {
  readonly #context: CallContext;
  readonly #calls: Call[] = [];
  #byIndex: Map<number, Call> | undefined;

  constructor(context: CallContext) {
    this.#context = context;
  }

  get count(): number {
    return this.#calls.length;
  }

  push(entries: readonly Json[], events: GenerationEvent[]): void {
    for (const [position, value] of entries.entries()) {
      const entry = objectIn(value);
      if (entry !== undefined) this.#add(entry, entries.length > 1 ? position : undefined, events);
    }
  }

  /** Closes calls whose arguments are complete, so that content after them is not held back. */
  closeWhole(events: GenerationEvent[]): void {
    for (const call of this.#calls) {
      if (call.item !== undefined && !call.isClosed && !call.isCustom && isWholeJson(call.arguments)) {
        this.#close(call, ItemStatus.COMPLETED, events);
      }
    }
  }

  /** Closes the calls of a choice at its end. `wasCut`: the choice was cut off, so that a call with unfinished arguments is incomplete. */
  finish(wasCut: boolean, events: GenerationEvent[]): void {
    for (const call of this.#calls) {
      if (call.item === undefined) this.#open(call, events);
      if (call.isClosed) continue;
      const isCut = wasCut && (call.isCustom || !isWholeJson(call.arguments));
      this.#close(call, isCut ? ItemStatus.INCOMPLETE : ItemStatus.COMPLETED, events);
    }
  }

  #add(entry: JsonObject, position: number | undefined, events: GenerationEvent[]): void {
    const custom = customIn(entry);
    const made = custom ?? objectIn(entry['function']) ?? {};
    const name = textIn(made['name']);
    const added = argumentsIn(made['arguments'] ?? made['input']);
    const call = this.#find(entry, { name, added, position });
    if (call.id === '') call.id = textIn(entry['id']);
    if (call.name === '') call.name = name;
    if (entry['type'] === 'custom' || custom !== undefined) call.isCustom = true;
    if (call.isClosed) {
      if (added.trim() === '') return;
      throw malformed('more arguments for a call that was complete');
    }
    if (call.item === undefined) this.#learn(call, entry);
    else this.#extend(call.item, entry, events);
    call.arguments += added;
    if (call.item !== undefined) this.#send(call, added, events);
    else if (call.name !== '' && (call.id !== '' || call.arguments !== '')) this.#open(call, events);
  }

  #find(entry: JsonObject, hints: { name: string; added: string; position: number | undefined }): Call {
    const id = textIn(entry['id']);
    const index = countIn(entry['index']);
    const same = id === '' ? undefined : this.#calls.find(call => call.id === id);
    if (index === undefined) {
      if (id !== '') return same ?? this.#new();
      const last = hints.position === undefined ? this.#calls.at(-1) : this.#calls[hints.position];
      return last === undefined || startsAnew(last, hints) ? this.#new() : last;
    }
    const current = this.#byIndex?.get(index);
    const isOther =
      current !== undefined && (id === '' ? startsAnew(current, hints) : current.id !== '' && current.id !== id);
    if (current !== undefined && !isOther) return current;
    const call = isOther && same !== undefined ? same : this.#new();
    this.#byIndex ??= new Map();
    this.#byIndex.set(index, call);
    return call;
  }

  #new(): Call {
    const call: Call = {
      id: '',
      name: '',
      isCustom: false,
      arguments: '',
      item: undefined,
      isClosed: false,
      signature: undefined,
      extra: undefined,
    };
    this.#calls.push(call);
    return call;
  }

  /** Passes on the unknown members of an entry of a call that is already open. */
  #extend(item: number, entry: JsonObject, events: GenerationEvent[]): void {
    const rest = findUnknownMembers(entry, known);
    if (rest === undefined) return;
    const added = extension(this.#context.choice, ExtensionScope.DELTA, extras.of(rest));
    if (added.event.case === 'extension') added.event.value.item = item;
    events.push(added);
  }

  /** Reads the members that only the first entries of a call have. */
  #learn(call: Call, entry: JsonObject): void {
    const google = objectIn(objectIn(entry['extra_content'])?.['google']);
    const signature = textIn(google?.['thought_signature']);
    if (signature !== '') call.signature = makeOpaque('gemini.thought_signature', signature, this.#context.provider);
    const rest = findUnknownMembers(entry, signature === '' ? known : knownWithSignature);
    if (rest !== undefined) call.extra ??= extras.of(rest);
  }

  #open(call: Call, events: GenerationEvent[]): void {
    if (call.name === '') throw malformed('a tool call without a name');
    if (call.id === '') call.id = this.#derivedId(call);
    this.closeWhole(events);
    call.item = this.#context.openItem(events);
    const content = toolCallContent({
      callId: call.id,
      name: call.name,
      kind: call.isCustom ? ToolKind.CUSTOM : ToolKind.FUNCTION,
      ...(call.signature === undefined ? {} : { signature: call.signature }),
    });
    events.push(itemOpened(this.#context.choice, call.item, makeItem(content, 0, call.extra)));
    this.#send(call, call.arguments, events);
  }

  /** Returns an id that is unique in the conversation, and the same whenever the same answer is parsed (translation case TR-10). */
  #derivedId(call: Call): string {
    const origin = [this.#context.answerId(), this.#context.choice, this.#calls.indexOf(call), call.name];
    return `call_${createHash('sha256').update(JSON.stringify(origin)).digest('hex').slice(0, 24)}`;
  }

  #send({ item }: Call, text: string, events: GenerationEvent[]): void {
    if (text === '' || item === undefined) return;
    events.push(delta(this.#context.choice, [item, 0], { kind: DeltaKind.ARGUMENTS, text }));
  }

  #close(call: Call, status: ItemStatus, events: GenerationEvent[]): void {
    call.isClosed = true;
    if (call.item !== undefined) events.push(itemClosed(this.#context.choice, call.item, status));
  }
}

/**
 * Returns whether a name begins another call, because the previous call already has a name and complete arguments. A server that repeats
 * the same name at the end of a call sends it without arguments.
 */
function startsAnew(call: Call, { name, added }: { readonly name: string; readonly added: string }): boolean {
  return name !== '' && call.name !== '' && (name !== call.name || added !== '') && isWholeJson(call.arguments);
}

/** Returns the custom call of an entry; undefined if it has none. Some servers send an empty one beside each function call. */
function customIn(entry: JsonObject): JsonObject | undefined {
  return entry['type'] === 'function' && entry['function'] != null ? undefined : objectIn(entry['custom']);
}

/** Returns the text of the arguments; some servers send them as a JSON value instead. */
function argumentsIn(value: Json | undefined): string {
  if (typeof value === 'string') return value;
  return objectIn(value) === undefined ? '' : exactText(value);
}
