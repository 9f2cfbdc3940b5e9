import assert from 'node:assert/strict';
import {
  type Extra,
  type Item,
  ItemStatus,
  type Opaque,
  type Part,
  type TokenLogprob,
} from '../gen/tollgate/v1/content_pb.ts';
import {
  type AnnotationAdded,
  type Completed,
  type Delta,
  type Extension,
  ExtensionScope,
  type Finished,
  type GenerationEvent,
  type OpaqueAdded,
  type PartClosed,
  type Started,
  type Usage,
} from '../gen/tollgate/v1/event_pb.ts';

/**
 * Folds events into a complete answer, so that an answer that is not streamed contains exactly what the stream would. The events are never changed.
 */

/** One candidate. */
export interface FoldedChoice {
  /** The items, in the order in which they opened. */
  readonly items: readonly Item[];
  /** How the candidate finished; undefined if the events end before that. */
  readonly finished: Finished | undefined;
  /** JSON members of the protocol for which the protobuf messages have no field, in order. */
  readonly extensions: readonly Extension[];
}

/** A complete or partial answer. */
export interface FoldedGeneration {
  readonly started: Started | undefined;
  /** The candidates, by choice number. A choice without content is empty, not missing. There is at least one if any event came. */
  readonly choices: readonly FoldedChoice[];
  /** The usage in `completed` if that came, else the last reported usage. */
  readonly usage: Usage | undefined;
  readonly completed: Completed | undefined;
}

/** Folds the events of a complete or partial answer. Items may interleave. Throws for events of an item or part that never opened. */
export function foldEvents(events: readonly GenerationEvent[]): FoldedGeneration {
  const fold = new EventFold();
  for (const event of events) fold.add(event);
  return fold;
}

/** The same, event by event. The result is the object itself, which grows with each event. */
export class EventFold implements FoldedGeneration {
  started: Started | undefined;
  usage: Usage | undefined;
  completed: Completed | undefined;
  readonly choices: ChoiceFold[] = [];

  add({ choice, event }: GenerationEvent): void {
    switch (event.case) {
      case 'started':
        this.started = event.value;
        this.usage = event.value.usage;
        this.#choice(0);
        return;
      case 'usageReported':
        this.usage = event.value.usage;
        return;
      case 'completed':
        this.completed = event.value;
        this.usage = event.value.usage ?? this.usage;
        return;
      default:
        this.#choice(choice).add(event);
    }
  }

  #choice(index: number): ChoiceFold {
    while (this.choices.length <= index) this.choices.push(new ChoiceFold());
    const choice = this.choices[index];
    assert(choice !== undefined);
    return choice;
  }
}

class ChoiceFold implements FoldedChoice {
  readonly items: Item[] = [];
  readonly extensions: Extension[] = [];
  finished: Finished | undefined;
  /** The items by their number in the events. An array, because most answers have one item, and a Map takes 200 bytes. */
  readonly #byNumber: (Item | undefined)[] = [];

  add(event: GenerationEvent['event']): void {
    switch (event.case) {
      case 'itemOpened':
        return this.#open(event.value.item, event.value.content);
      case 'partOpened':
        return this.#openPart(event.value.item, event.value.content);
      case 'delta':
        return this.#delta(event.value);
      case 'annotationAdded':
        return this.#annotate(event.value);
      case 'opaqueAdded':
        return this.#addOpaque(event.value);
      case 'itemClosed': {
        const item = this.#item(event.value.item);
        item.status = event.value.status;
        if (item.content.case === 'message' && event.value.phase !== 0) item.content.value.phase = event.value.phase;
        addExtra(item, event.value.extra);
        return;
      }
      case 'partClosed':
        return this.#closePart(event.value);
      case 'finished':
        this.finished = event.value;
        return;
      case 'extension':
        if (event.value.scope === ExtensionScope.ITEM) this.#replace(event.value);
        else this.extensions.push(event.value);
        break;
      default:
    }
  }

  #open(number: number, content: Item | undefined): void {
    assert(content !== undefined, 'an item opened without content');
    const item = { ...content, content: copyContent(content.content) };
    this.#byNumber[number] = item;
    this.items.push(item);
  }

  #openPart(number: number, content: Part | undefined): void {
    assert(content !== undefined, 'a part opened without content');
    listParts(this.#item(number)).push({ ...content, content: copyPart(content.content) });
  }

  #delta({ item: number, part: at, text, logprobs }: Delta): void {
    const item = this.#item(number);
    if (item.content.case === 'toolCall') item.content.value.arguments += text;
    else addText(partAt(item, at), text, logprobs);
  }

  #annotate({ item: number, part: at, annotation }: AnnotationAdded): void {
    const { content } = partAt(this.#item(number), at);
    if (content.case === 'text' && annotation !== undefined) content.value.annotations.push(annotation);
  }

  #closePart({ item: number, part: at, extra }: PartClosed): void {
    if (extra === undefined) return;
    const part = partAt(this.#item(number), at);
    if (part.content.case === 'unknown') part.content.value.json = extra.json;
    else addExtra(part, extra);
  }

  #replace({ item: number, extra }: Extension): void {
    const item = this.#item(number ?? -1);
    if (item.content.case !== 'serverTool' || extra === undefined) return;
    item.content = { case: 'serverTool', value: { ...item.content.value, json: extra.json } };
    item.status = ItemStatus.COMPLETED;
  }

  #addOpaque({ item: number, part: at, opaque }: OpaqueAdded): void {
    if (opaque === undefined) return;
    const item = this.#item(number);
    if (at !== undefined) partAt(item, at).signature = opaque;
    else addOpaque(item, opaque);
  }

  #item(number: number): Item {
    const item = this.#byNumber[number];
    assert(item !== undefined, `item ${number} never opened`);
    return item;
  }
}

function listParts({ content }: Item): Part[] {
  if (content.case === 'message' || content.case === 'reasoning' || content.case === 'toolResult')
    return content.value.parts;
  throw new assert.AssertionError({ message: `a ${content.case ?? 'nameless item'} has no parts` });
}

function partAt(item: Item, at: number): Part {
  const part = listParts(item)[at];
  assert(part !== undefined, `part ${at} never opened`);
  return part;
}

function addText({ content }: Part, text: string, logprobs: readonly TokenLogprob[]): void {
  switch (content.case) {
    case 'text':
      content.value.text += text;
      if (logprobs.length > 0) content.value.logprobs.push(...logprobs);
      return;
    case 'refusal':
    case 'reasoningText':
    case 'summaryText':
      content.value.text += text;
      return;
    default:
      throw new assert.AssertionError({ message: `a ${content.case ?? 'nameless'} part has no text` });
  }
}

/** Adds unknown members that came when the part or item closed: joins the JSON of two objects that have no common names. */
function addExtra(value: { extra?: Extra | undefined }, added: Extra | undefined): void {
  if (added === undefined) return;
  const { extra } = value;
  const isFirst = extra === undefined || extra.json.length < 3;
  value.extra = isFirst ? added : { ...extra, json: `${extra.json.slice(0, -1)},${added.json.slice(1)}` };
}

function addOpaque({ content }: Item, opaque: Opaque): void {
  if (content.case === 'reasoning') content.value.opaque.push(opaque);
  else if (content.case === 'toolCall') content.value.signature = opaque;
  else if (content.case === 'compaction') content.value.opaque = opaque;
}

/** Copies those parts of an item's content that the fold changes. */
function copyContent(content: Item['content']): Item['content'] {
  switch (content.case) {
    case 'message':
    case 'toolResult':
    case 'reasoning': {
      const parts = content.value.parts.map(part => ({ ...part, content: copyPart(part.content) }));
      if (content.case !== 'reasoning') return { ...content, value: { ...content.value, parts } } as Item['content'];
      return { case: 'reasoning', value: { ...content.value, parts, opaque: [...content.value.opaque] } };
    }
    case 'toolCall':
    case 'compaction':
      return { ...content, value: { ...content.value } } as Item['content'];
    default:
      return content;
  }
}

function copyPart(content: Part['content']): Part['content'] {
  if (content.case === undefined) return content;
  if (content.case === 'text') {
    const { annotations, logprobs } = content.value;
    return { case: 'text', value: { ...content.value, annotations: [...annotations], logprobs: [...logprobs] } };
  }
  return { ...content, value: { ...content.value } } as Part['content'];
}
