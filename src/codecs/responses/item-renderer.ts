import assert from 'node:assert/strict';
import {
  type Annotation,
  type Item,
  ItemStatus,
  type Part,
  Phase,
  type TokenLogprob,
  ToolKind,
} from '../../gen/tollgate/v1/content_pb.ts';
import type { Delta, GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { itemClosed, partClosed } from '../../generation/events.ts';
import { SurrogateGate } from '../../lib/surrogates.ts';
import type { JsonObject } from '../codec.ts';
import { renderAnnotation } from './annotation.ts';
import { renderTokens } from './logprobs.ts';
import { isShown, renderItem } from './render-item.ts';
import { renderOutputPart, renderReasoningPart } from './render-part.ts';
import type { ResponseFold } from '../../generation/response-fold.ts';

/** Numbers an event and writes it. `members` as a string is their JSON without the opening brace. */
type Emit = (type: string, members: JsonObject | string) => void;

/** An item that is shown to the client. */
interface ShownItem {
  /** The item with all its content so far. */
  readonly item: Item;
  readonly outputIndex: number;
}

/** The item that is being written. */
interface OpenItem extends ShownItem {
  /** The number of the item in the generation's events. */
  readonly number: number;
  /** How many parts have been opened; the last one may still be open. */
  parts: number;
  isPartOpen: boolean;
  annotations: number;
  gate: SurrogateGate;
  /** The form of its deltas; undefined if none are sent. */
  form: DeltaForm | undefined;
}

/** The deltas of one part or call: their kind, and their JSON before and after the JSON of the new content. */
interface DeltaForm {
  readonly kind: DeltaKind;
  readonly head: string;
  readonly tail: string;
}

/** The events of a kind of delta. */
interface DeltaKind {
  readonly delta: string;
  readonly done: string;
  /** The member of the last event that contains the complete text. */
  readonly whole: 'text' | 'refusal' | 'arguments' | 'input';
}

const textKind = { delta: 'response.output_text.delta', done: 'response.output_text.done', whole: 'text' } as const;
const refusalKind = { delta: 'response.refusal.delta', done: 'response.refusal.done', whole: 'refusal' } as const;
const summaryKind = {
  delta: 'response.reasoning_summary_text.delta',
  done: 'response.reasoning_summary_text.done',
  whole: 'text',
} as const;
const argumentsKind = {
  delta: 'response.function_call_arguments.delta',
  done: 'response.function_call_arguments.done',
  whole: 'arguments',
} as const;
const inputKind = {
  delta: 'response.custom_tool_call_input.delta',
  done: 'response.custom_tool_call_input.done',
  whole: 'input',
} as const;

/**
 * Renders items as events: added, parts, deltas, done, with contiguous indices. The last event of a message is sent only when its phase is
 * known, which is decided by the next item or by the finish. Source: docs/interfaces/responses.md "Stream", "Output
 * items" (phase).
 */
export class ItemRenderer {
  readonly #fold: ResponseFold;
  readonly #emit: Emit;
  #shown = 0;
  #open: OpenItem | undefined;
  /** The items of tools that the upstream still runs, by their numbers in the generation's events. */
  readonly #running = new Map<number, ShownItem>();
  /** Messages that are complete, but whose phase is not known yet. */
  #waiting: ShownItem[] = [];

  constructor(fold: ResponseFold, emit: Emit) {
    this.#fold = fold;
    this.#emit = emit;
  }

  /** Emits the events for one event of the generation, which must already be in the fold. */
  push(event: GenerationEvent['event']): void {
    switch (event.case) {
      case 'itemOpened':
        return this.#openItem(event.value.item);
      case 'partOpened':
        return this.#openPart();
      case 'delta':
        return this.#delta(event.value);
      case 'annotationAdded':
        return event.value.annotation === undefined ? undefined : this.#annotate(event.value.annotation);
      case 'partClosed':
        return this.#closePart();
      case 'itemClosed':
        return this.#closeItem();
      case 'finished':
        this.#endRunning();
        return this.#endConfirmed();
      default:
    }
  }

  /**
   * Returns the members that identify the shown item of an unknown event, named as in the event itself; an empty object if the event
   * belongs to no open item.
   */
  placeIn(members: JsonObject, item: number | undefined): JsonObject {
    const shown = item === undefined ? undefined : this.#shownAt(item);
    if (shown === undefined) return {};
    return {
      ...(members['item_id'] === undefined ? {} : { item_id: renderItem(shown.item)['id'] ?? members['item_id'] }),
      ...(members['output_index'] === undefined ? {} : { output_index: shown.outputIndex }),
    };
  }

  /** Emits the end of an item of a tool that the upstream ran, of which the fold now has the complete form. */
  endTool(item: number): void {
    const shown = this.#running.get(item);
    this.#running.delete(item);
    if (shown !== undefined) this.#done(shown);
  }

  #shownAt(item: number): ShownItem | undefined {
    return this.#open?.number === item ? this.#open : this.#running.get(item);
  }

  /** Closes everything that is still open when the generation breaks off. */
  close(status: ItemStatus): void {
    if (this.#open !== undefined) {
      const { number, parts, isPartOpen } = this.#open;
      if (isPartOpen) {
        this.#fold.add(partClosed(0, [number, parts - 1]));
        this.#closePart();
      }
      this.#fold.add(itemClosed(0, number, status));
      this.#closeItem();
    }
    this.#fold.settle();
    this.#endRunning();
    this.#endConfirmed();
  }

  #endRunning(): void {
    for (const item of this.#running.keys()) this.endTool(item);
  }

  #openItem(number: number): void {
    const item = this.#fold.items.at(-1);
    assert(item !== undefined, 'an item opened without content');
    if (!isShown(item)) return;
    this.#endConfirmed();
    const outputIndex = this.#shown;
    this.#shown += 1;
    const gate = new SurrogateGate();
    this.#open = { item, number, outputIndex, parts: 0, isPartOpen: false, annotations: 0, gate, form: undefined };
    const begun = renderItem({ ...item, status: ItemStatus.IN_PROGRESS });
    // Whether a message is the final answer is not known until something follows it.
    if (item.content.case === 'message') delete begun['phase'];
    this.#emit('response.output_item.added', { output_index: outputIndex, item: begun });
    if (item.content.case === 'toolCall') this.#openDeltas(this.#open);
  }

  /** Emits the ends of messages whose phase is now known. */
  #endConfirmed(): void {
    if (this.#waiting.length === 0) return;
    const confirmed = this.#waiting.filter(({ item }) => hasPhase(item));
    this.#waiting = this.#waiting.filter(({ item }) => !hasPhase(item));
    for (const shown of confirmed) this.#done(shown);
  }

  #done({ item, outputIndex }: ShownItem): void {
    this.#emit('response.output_item.done', { output_index: outputIndex, item: renderItem(item) });
  }

  /** Decides how the following deltas are sent. */
  #openDeltas(open: OpenItem): void {
    const kind = toDeltaKind(open);
    if (kind === undefined) {
      open.form = undefined;
      return;
    }
    const place = JSON.stringify(renderPlace(open)).slice(1, -1);
    open.form = { kind, head: `${place},"delta":`, tail: kind === textKind ? ',"logprobs":[]}' : '}' };
  }

  #openPart(): void {
    const open = this.#open;
    if (open === undefined) return;
    open.parts += 1;
    open.isPartOpen = true;
    open.annotations = 0;
    open.gate = new SurrogateGate();
    this.#openDeltas(open);
    const shown = shownPart(open);
    if (shown === undefined) return;
    const isReasoning = open.item.content.case === 'reasoning';
    const type = isReasoning ? 'response.reasoning_summary_part.added' : 'response.content_part.added';
    this.#emit(type, { ...renderPlace(open), part: shown });
  }

  #delta({ text, logprobs }: Delta): void {
    const open = this.#open;
    if (open === undefined) return;
    const ready = open.gate.push(text);
    if (ready !== '' || logprobs.length > 0) this.#say(open, ready, logprobs);
  }

  #say({ form }: OpenItem, text: string, logprobs: readonly TokenLogprob[]): void {
    if (form === undefined) return;
    const { kind, head, tail } = form;
    const isScored = logprobs.length > 0 && kind === textKind;
    const end = isScored ? `,"logprobs":${JSON.stringify(renderTokens(logprobs))}}` : tail;
    this.#emit(kind.delta, head + JSON.stringify(text) + end);
  }

  #annotate(annotation: Annotation): void {
    const open = this.#open;
    const shown = renderAnnotation(annotation);
    if (open === undefined || shown === undefined || open.form?.kind !== textKind) return;
    this.#flush(open);
    const index = open.annotations;
    open.annotations += 1;
    const members = { ...renderPlace(open), annotation_index: index, annotation: shown };
    this.#emit('response.output_text.annotation.added', members);
  }

  /** Emits half of a surrogate pair whose other half never came. */
  #flush(open: OpenItem): void {
    const rest = open.gate.end();
    if (rest !== '') this.#say(open, rest, []);
  }

  #closePart(): void {
    const open = this.#open;
    if (open === undefined) return;
    open.isPartOpen = false;
    const part = toPart(open);
    const shown = shownPart(open);
    if (shown === undefined || part === undefined) return;
    const place = renderPlace(open);
    const isReasoning = open.item.content.case === 'reasoning';
    if (open.form !== undefined) {
      const { kind } = open.form;
      const text = shown[kind.whole] ?? '';
      const likely = part.content.case === 'text' ? { logprobs: renderTokens(part.content.value.logprobs) } : {};
      this.#flush(open);
      this.#emit(kind.done, { ...place, [kind.whole]: text, ...likely });
    }
    this.#emit(isReasoning ? 'response.reasoning_summary_part.done' : 'response.content_part.done', {
      ...place,
      part: shown,
    });
  }

  #closeItem(): void {
    const open = this.#open;
    if (open === undefined) return;
    this.#open = undefined;
    const { content, status } = open.item;
    if (content.case === 'serverTool' && status === ItemStatus.IN_PROGRESS) {
      this.#running.set(open.number, open);
      return;
    }
    if (content.case === 'message') {
      this.#waiting.push(open);
      // If the upstream gives the phase, the message need not wait, unless an earlier message waits.
      if (this.#waiting.every(({ item }) => hasPhase(item))) this.#endConfirmed();
      return;
    }
    if (content.case === 'toolCall') {
      const kind = open.form?.kind ?? argumentsKind;
      const name = kind === argumentsKind ? { name: content.value.name } : {};
      const text = content.value.arguments.toWellFormed();
      this.#flush(open);
      this.#emit(kind.done, { ...renderPlace(open), ...name, [kind.whole]: text });
    }
    this.#done(open);
  }
}

function hasPhase({ content }: Item): boolean {
  return content.case === 'message' && content.value.phase !== Phase.UNSPECIFIED;
}

/** Returns the part that was opened last. */
function toPart({ item: { content }, parts }: OpenItem): Part | undefined {
  if (content.case !== 'message' && content.case !== 'reasoning') return undefined;
  return content.value.parts[parts - 1];
}

/** Returns the members that say which item and part an event belongs to. */
function renderPlace({ item, outputIndex, parts }: OpenItem): JsonObject {
  const place = { item_id: item.id, output_index: outputIndex };
  if (item.content.case === 'reasoning') return { ...place, summary_index: parts - 1 };
  return item.content.case === 'message' ? { ...place, content_index: parts - 1 } : place;
}

function shownPart(open: OpenItem): JsonObject | undefined {
  const part = toPart(open);
  if (part === undefined) return undefined;
  return open.item.content.case === 'reasoning' ? renderReasoningPart(part) : renderOutputPart(part);
}

function toDeltaKind(open: OpenItem): DeltaKind | undefined {
  const { content } = open.item;
  if (content.case === 'toolCall') return content.value.kind === ToolKind.CUSTOM ? inputKind : argumentsKind;
  const part = toPart(open)?.content.case;
  if (part === 'unknown') return undefined;
  if (content.case === 'reasoning') return summaryKind;
  if (part === 'text') return textKind;
  return part === 'refusal' ? refusalKind : undefined;
}
