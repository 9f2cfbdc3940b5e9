import type { Item, Part } from '../../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, type GenerationEvent, type PartOpened } from '../../gen/tollgate/v1/event_pb.ts';
import { UpstreamFailure } from '../upstream.ts';
import { PerChoice } from './per-choice.ts';
import type { EventStep } from './step.ts';

/**
 * Checks the order of an upstream's events before a client sees them: `started` comes first; an item or part opens before its deltas; a choice has one open item at a time; every item is closed before `finished`; each choice has exactly one `finished`; `completed` comes last. Throws `UpstreamFailure` `malformed` if the order is violated, if an item has a part that it
 * can't have, or if a requested choice is missing, so that everything that passes can be rendered. An end without `completed` is `truncated`; no finish is invented.
 */
export class Validator implements EventStep {
  readonly #next: EventStep;
  readonly #candidates: number;
  #state: 'new' | 'started' | 'completed' = 'new';
  readonly #choices = new PerChoice(newValidChoice, undefined);

  /** `candidates`: how many choices, from number 0 on, must have finished at the end. */
  constructor(next: EventStep, candidates = 0) {
    this.#next = next;
    this.#candidates = candidates;
  }

  push(event: GenerationEvent): void {
    this.#check(event);
    this.#next.push(event);
  }

  /** Called when the upstream has ended. Throws `truncated` if `completed` has not come. */
  end(): void {
    if (this.#state !== 'completed') throw new UpstreamFailure('truncated');
  }

  #check(event: GenerationEvent): void {
    const kind = event.event.case;
    if (this.#state === 'completed') throw malformed(`${kind ?? 'nothing'} after completed`);
    if (this.#state === 'new') {
      if (kind !== 'started') throw malformed(`${kind ?? 'nothing'} before started`);
      this.#state = 'started';
      return;
    }
    if (kind === 'started') throw malformed('started twice');
    if (kind === 'completed') this.#complete();
    else if (kind !== 'usageReported' && kind !== 'extension') this.#choices.get(event.choice).check(event);
  }

  #complete(): void {
    if (!this.#choices.some(isAny)) throw malformed('completed without a finish');
    if (this.#choices.some(isUnfinished)) throw malformed('completed before every choice finished');
    for (let choice = 0; choice < this.#candidates; choice += 1) {
      if (!this.#choices.get(choice).isFinished) throw malformed(`no choice ${choice}`);
    }
    this.#state = 'completed';
  }
}

function malformed(what: string): UpstreamFailure {
  return new UpstreamFailure('malformed', { message: `The upstream's answer is out of order: ${what}.` });
}

/** The kind of part that each kind of delta adds to; arguments add to the item. */
const partByDelta: Readonly<Record<DeltaKind, Part['content']['case'] | 'item' | undefined>> = {
  [DeltaKind.UNSPECIFIED]: undefined,
  [DeltaKind.TEXT]: 'text',
  [DeltaKind.REFUSAL]: 'refusal',
  [DeltaKind.ARGUMENTS]: 'item',
  [DeltaKind.REASONING]: 'reasoningText',
  [DeltaKind.SUMMARY]: 'summaryText',
  [DeltaKind.ECHO]: 'text',
};

/** Returns whether an item may have a part of that kind. Calls, items of tools that the upstream runs, and compactions have no parts. */
function mayHave(item: Item['content']['case'], part: Part['content']['case']): boolean {
  if (part === 'unknown') return item === 'message' || item === 'reasoning';
  const isReasoning = part === 'reasoningText' || part === 'summaryText';
  return isReasoning ? item === 'reasoning' : item === 'message';
}

const newValidChoice = (): ValidChoice => new ValidChoice();
const isAny = (): boolean => true;
const isUnfinished = (choice: ValidChoice): boolean => !choice.isFinished;

class ValidChoice {
  isFinished = false;
  #items = 0;
  #open: Item['content']['case'] | undefined;
  #parts = 0;
  #part: Part['content']['case'] | undefined;

  check({ event }: GenerationEvent): void {
    if (this.isFinished) throw malformed(`${event.case ?? 'nothing'} after finished`);
    switch (event.case) {
      case 'itemOpened':
        return this.#openItem(event.value.item, event.value.content);
      case 'partOpened':
        return this.#openPart(event.value);
      case 'delta':
        return this.#delta(event.value);
      case 'partClosed':
        this.#requirePart(event.value);
        this.#part = undefined;
        return;
      case 'annotationAdded':
        return this.#requirePart(event.value);
      case 'opaqueAdded':
        this.#requireItem(event.value.item);
        if (event.value.part === undefined || event.value.part < this.#parts) return;
        throw malformed(`a blob of part ${event.value.part}, which never opened`);
      case 'itemClosed':
        this.#requireItem(event.value.item);
        if (this.#part !== undefined) throw malformed('an item closed before its part');
        this.#open = undefined;
        return;
      case 'finished':
        if (this.#open !== undefined) throw malformed('finished with an open item');
        this.isFinished = true;
        break;
      default:
    }
  }

  #openItem(item: number, content: Item | undefined): void {
    if (this.#open !== undefined) throw malformed('two open items');
    if (item !== this.#items) throw malformed(`item ${item} instead of item ${this.#items}`);
    if (content?.content.case === undefined) throw malformed('an item without content');
    this.#open = content.content.case;
    this.#items += 1;
    this.#parts = 0;
  }

  #openPart(value: PartOpened): void {
    this.#requireItem(value.item);
    if (this.#part !== undefined) throw malformed('two open parts');
    if (value.part !== this.#parts) throw malformed(`part ${value.part} instead of part ${this.#parts}`);
    const kind = value.content?.content.case;
    if (kind === undefined) throw malformed('a part without content');
    if (!mayHave(this.#open, kind)) throw malformed(`a ${kind} part in a ${this.#open ?? 'nameless item'}`);
    this.#part = kind;
    this.#parts += 1;
  }

  #delta(value: { item: number; part: number; kind: DeltaKind }): void {
    const wanted = partByDelta[value.kind];
    if (wanted === 'item') {
      this.#requireItem(value.item);
      if (this.#open !== 'toolCall') throw malformed('arguments outside a call');
      return;
    }
    this.#requirePart(value);
    if (wanted === undefined || wanted !== this.#part) throw malformed('a delta of another kind than its part');
  }

  #requireItem(item: number): void {
    if (this.#open === undefined || item !== this.#items - 1) throw malformed(`item ${item} is not open`);
  }

  #requirePart({ item, part }: { item: number; part: number }): void {
    this.#requireItem(item);
    if (this.#part === undefined || part !== this.#parts - 1) throw malformed(`part ${part} is not open`);
  }
}
