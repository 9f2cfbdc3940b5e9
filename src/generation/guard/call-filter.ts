import { FinishReason, type GenerationEvent, type ItemOpened } from '../../gen/tollgate/v1/event_pb.ts';
import { type GenerateRequest, ToolChoiceMode } from '../../gen/tollgate/v1/request_pb.ts';
import { PerChoice } from './per-choice.ts';
import { itemNumber, withItem } from './serialise.ts';
import type { EventStep } from './step.ts';

/** The calls and choices that a request allows in its answer. */
export interface CallRules {
  /** The number of requested choices. */
  readonly candidates: number;
  /** The most calls in a choice: 0 with tool choice `none`, 1 without parallel calls, `max_tool_calls` otherwise. */
  readonly callsMax: number;
  /** The names that may be called; undefined: any. */
  readonly callable: ReadonlySet<string> | undefined;
}

/** Returns the rules of a request. */
export function callRules(request: GenerateRequest): CallRules {
  const { toolChoice } = request;
  const named = toolChoice?.mode === ToolChoiceMode.NAMED || toolChoice?.restricted === true;
  const most = request.parallelToolCalls === false ? 1 : Infinity;
  return {
    candidates: request.candidates ?? 1,
    callsMax: toolChoice?.mode === ToolChoiceMode.NONE ? 0 : Math.min(most, request.maxToolCalls ?? Infinity),
    callable: named ? new Set(toolChoice.tools.map(tool => tool.name)) : undefined,
  };
}

/**
 * Removes from an upstream's answer what the client did not allow: choices beyond the requested number, calls beyond the limit, and calls of tools that the tool choice does not allow. Items are renumbered without gaps. If all calls of a choice were removed, its finish reason is corrected.
 */
export class CallFilter implements EventStep {
  readonly #next: EventStep;
  readonly #rules: CallRules;
  /** True if calls are limited. */
  readonly #isFiltering: boolean;
  readonly #choices = new PerChoice(newChoice, undefined);

  constructor(next: EventStep, rules: CallRules) {
    this.#next = next;
    this.#rules = rules;
    this.#isFiltering = rules.callsMax < Infinity || rules.callable !== undefined;
  }

  push(event: GenerationEvent): void {
    if (event.choice >= this.#rules.candidates) return;
    if (this.#isFiltering) this.#filter(event);
    else this.#next.push(event);
  }

  #filter(event: GenerationEvent): void {
    const { event: step } = event;
    const item = itemNumber(event);
    const choice = this.#choices.get(event.choice);
    if (step.case === 'itemOpened') this.#open(choice, step.value);
    if (item === undefined) this.#next.push(withoutCallFinish(event, choice));
    else {
      const number = choice.numbers[item];
      if (number !== undefined) this.#next.push(withItem(event, number));
    }
  }

  #open(choice: FilteredChoice, { item: number, content: item }: ItemOpened): void {
    const content = item?.content;
    const { callsMax, callable } = this.#rules;
    if (content?.case === 'toolCall') {
      if (choice.calls >= callsMax || callable?.has(content.value.name) === false) {
        choice.dropped += 1;
        return;
      }
      choice.calls += 1;
    }
    choice.numbers[number] = number - choice.dropped;
  }
}

interface FilteredChoice {
  calls: number;
  dropped: number;
  /** The new numbers of items that were not removed, by their number. */
  readonly numbers: (number | undefined)[];
}

function newChoice(): FilteredChoice {
  return { calls: 0, dropped: 0, numbers: [] };
}

function withoutCallFinish(event: GenerationEvent, choice: FilteredChoice): GenerationEvent {
  const { event: ended } = event;
  const noCallLeft = choice.calls === 0 && choice.dropped > 0;
  if (!noCallLeft || ended.case !== 'finished' || ended.value.reason !== FinishReason.TOOL_CALLS) return event;
  return { ...event, event: { case: 'finished', value: { ...ended.value, reason: FinishReason.STOP, native: '' } } };
}
