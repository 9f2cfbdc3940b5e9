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
import { renderOutputPart, renderThought } from './render-part.ts';
import type { ResponseFold } from '../../generation/response-fold.ts';
import type { ResponseEvent } from './stream.ts';

/** Numbers an event and writes it. */
type Emit = (type: string, members: JsonObject) => ResponseEvent;

/** An item that is shown. */
interface ShownItem {
  /** As the fold puts it together; it grows. */
  readonly item: Item;
  readonly outputIndex: number;
}

/** The item that is being written. */
interface OpenItem extends ShownItem {
  /** Its number in the generation's events. */
  readonly number: number;
  /** How many parts have opened; the last of them may be open. */
  parts: number;
  isPartOpen: boolean;
  annotations: number;
  gate: SurrogateGate;
}

/** How a kind of delta is told. */
interface DeltaForm {
  readonly delta: string;
  readonly done: string;
  /** The member of the last event that has the whole text. */
  readonly whole: 'text' | 'refusal' | 'arguments' | 'input';
}

const textForm = { delta: 'response.output_text.delta', done: 'response.output_text.done', whole: 'text' } as const;
const refusalForm = { delta: 'response.refusal.delta', done: 'response.refusal.done', whole: 'refusal' } as const;
const summaryForm = {
  delta: 'response.reasoning_summary_text.delta',
  done: 'response.reasoning_summary_text.done',
  whole: 'text',
} as const;
const argumentsForm = {
  delta: 'response.function_call_arguments.delta',
  done: 'response.function_call_arguments.done',
  whole: 'arguments',
} as const;
const inputForm = {
  delta: 'response.custom_tool_call_input.delta',
  done: 'response.custom_tool_call_input.done',
  whole: 'input',
} as const;

/**
 * Items as events: added, parts, deltas, done, with contiguous indices. The end of a message waits for its phase, which the next item or the finish tells. Source:
 * wire.md B2; decisions §4 (phase).
 */
export class ItemRenderer {
  readonly #fold: ResponseFold;
  readonly #emit: Emit;
  #shown = 0;
  #open: OpenItem | undefined;
  /** Messages that are whole but for their phase. */
  #waiting: ShownItem[] = [];

  constructor(fold: ResponseFold, emit: Emit) {
    this.#fold = fold;
    this.#emit = emit;
  }

  /** The events that follow from one of the generation, which the fold has taken already. */
  push(event: GenerationEvent['event']): ResponseEvent[] {
    switch (event.case) {
      case 'itemOpened':
        return this.#openItem(event.value.item);
      case 'partOpened':
        return this.#openPart();
      case 'delta':
        return this.#delta(event.value);
      case 'annotationAdded':
        return event.value.annotation === undefined ? [] : this.#annotate(event.value.annotation);
      case 'partClosed':
        return this.#closePart();
      case 'itemClosed':
        return this.#closeItem();
      case 'finished':
        return this.#told();
      default:
        return [];
    }
  }

  /** Ends what is open, where the generation ends in the middle. */
  close(status: ItemStatus): ResponseEvent[] {
    const events: ResponseEvent[] = [];
    if (this.#open !== undefined) {
      const { number, parts, isPartOpen } = this.#open;
      if (isPartOpen) {
        this.#fold.add(partClosed(0, [number, parts - 1]));
        events.push(...this.#closePart());
      }
      this.#fold.add(itemClosed(0, number, status));
      events.push(...this.#closeItem());
    }
    this.#fold.settle();
    return [...events, ...this.#told()];
  }

  #openItem(number: number): ResponseEvent[] {
    const item = this.#fold.items.at(-1);
    assert(item !== undefined, 'an item opened without content');
    if (!isShown(item)) return [];
    const events = this.#told();
    const outputIndex = this.#shown;
    this.#shown += 1;
    const gate = new SurrogateGate();
    this.#open = { item, number, outputIndex, parts: 0, isPartOpen: false, annotations: 0, gate };
    const begun = renderItem({ ...item, status: ItemStatus.IN_PROGRESS });
    // Whether it is the answer is not known before something follows it.
    if (item.content.case === 'message') delete begun['phase'];
    events.push(this.#emit('response.output_item.added', { output_index: outputIndex, item: begun }));
    return events;
  }

  /** The events of messages whose phase is known by now. */
  #told(): ResponseEvent[] {
    const told = this.#waiting.filter(({ item }) => hasPhase(item));
    this.#waiting = this.#waiting.filter(({ item }) => !hasPhase(item));
    return told.map(shown => this.#done(shown));
  }

  #done({ item, outputIndex }: ShownItem): ResponseEvent {
    return this.#emit('response.output_item.done', { output_index: outputIndex, item: renderItem(item) });
  }

  /** The members that place an event. */
  #place({ item, outputIndex, parts }: OpenItem): JsonObject {
    const place = { item_id: item.id, output_index: outputIndex };
    if (item.content.case === 'reasoning') return { ...place, summary_index: parts - 1 };
    return item.content.case === 'message' ? { ...place, content_index: parts - 1 } : place;
  }

  #openPart(): ResponseEvent[] {
    const open = this.#open;
    if (open === undefined) return [];
    open.parts += 1;
    open.isPartOpen = true;
    open.annotations = 0;
    open.gate = new SurrogateGate();
    const shown = shownPart(open);
    if (shown === undefined) return [];
    const isThought = open.item.content.case === 'reasoning';
    const type = isThought ? 'response.reasoning_summary_part.added' : 'response.content_part.added';
    return [this.#emit(type, { ...this.#place(open), part: shown })];
  }

  #delta({ text, logprobs }: Delta): ResponseEvent[] {
    const open = this.#open;
    if (open === undefined) return [];
    const ready = open.gate.push(text);
    return ready === '' && logprobs.length === 0 ? [] : this.#said(open, ready, logprobs);
  }

  #said(open: OpenItem, text: string, logprobs: readonly TokenLogprob[]): ResponseEvent[] {
    const form = formOf(open);
    if (form === undefined) return [];
    const likely = form === textForm ? { logprobs: renderTokens(logprobs) } : {};
    return [this.#emit(form.delta, { ...this.#place(open), delta: text, ...likely })];
  }

  #annotate(annotation: Annotation): ResponseEvent[] {
    const open = this.#open;
    const shown = renderAnnotation(annotation);
    if (open === undefined || shown === undefined || formOf(open) !== textForm) return [];
    const events = this.#flushed(open);
    const index = open.annotations;
    open.annotations += 1;
    const members = { ...this.#place(open), annotation_index: index, annotation: shown };
    return [...events, this.#emit('response.output_text.annotation.added', members)];
  }

  /** Half a character that never got its other half. */
  #flushed(open: OpenItem): ResponseEvent[] {
    const rest = open.gate.end();
    return rest === '' ? [] : this.#said(open, rest, []);
  }

  #closePart(): ResponseEvent[] {
    const open = this.#open;
    if (open === undefined) return [];
    open.isPartOpen = false;
    const form = formOf(open);
    const part = partOf(open);
    const shown = shownPart(open);
    if (form === undefined || shown === undefined || part === undefined) return [];
    const place = this.#place(open);
    const text = shown[form.whole] ?? '';
    const likely = part.content.case === 'text' ? { logprobs: renderTokens(part.content.value.logprobs) } : {};
    const isThought = open.item.content.case === 'reasoning';
    return [
      ...this.#flushed(open),
      this.#emit(form.done, { ...place, [form.whole]: text, ...likely }),
      this.#emit(isThought ? 'response.reasoning_summary_part.done' : 'response.content_part.done', {
        ...place,
        part: shown,
      }),
    ];
  }

  #closeItem(): ResponseEvent[] {
    const open = this.#open;
    if (open === undefined) return [];
    this.#open = undefined;
    const { content } = open.item;
    if (content.case === 'message') {
      this.#waiting.push(open);
      // Where an upstream says the phase itself, nothing waits; no later message overtakes one that waits.
      return this.#waiting.every(({ item }) => hasPhase(item)) ? this.#told() : [];
    }
    if (content.case !== 'toolCall') return [this.#done(open)];
    const form = formOf(open) ?? argumentsForm;
    const name = form === argumentsForm ? { name: content.value.name } : {};
    const text = content.value.arguments.toWellFormed();
    return [
      ...this.#flushed(open),
      this.#emit(form.done, { ...this.#place(open), ...name, [form.whole]: text }),
      this.#done(open),
    ];
  }
}

function hasPhase({ content }: Item): boolean {
  return content.case === 'message' && content.value.phase !== Phase.UNSPECIFIED;
}

/** The part that was opened last. */
function partOf({ item: { content }, parts }: OpenItem): Part | undefined {
  if (content.case !== 'message' && content.case !== 'reasoning') return undefined;
  return content.value.parts[parts - 1];
}

function shownPart(open: OpenItem): JsonObject | undefined {
  const part = partOf(open);
  if (part === undefined) return undefined;
  return open.item.content.case === 'reasoning' ? renderThought(part) : renderOutputPart(part);
}

function formOf(open: OpenItem): DeltaForm | undefined {
  const { content } = open.item;
  if (content.case === 'toolCall') return content.value.kind === ToolKind.CUSTOM ? inputForm : argumentsForm;
  if (content.case === 'reasoning') return summaryForm;
  const part = partOf(open)?.content.case;
  if (part === 'text') return textForm;
  return part === 'refusal' ? refusalForm : undefined;
}
