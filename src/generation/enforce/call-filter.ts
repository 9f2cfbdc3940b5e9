import { FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { type GenerateRequest, ToolChoiceMode } from '../../gen/tollgate/v1/request_pb.ts';
import type { Stepper } from '../../lib/stepper.ts';
import { itemOf, withItem } from '../serialise.ts';

/** What a request allows its answer to call and to contain. */
export interface CallRules {
  /** How many choices were asked for. */
  readonly candidates: number;
  /** How many calls one choice may make: 0 with tool choice `none`, 1 without parallel calls, `max_tool_calls` otherwise. */
  readonly callsMax: number;
  /** The names that may be called; undefined: any. */
  readonly callable: ReadonlySet<string> | undefined;
}

/** The rules that a request sets. */
export function callRules(request: GenerateRequest): CallRules {
  const { toolChoice } = request;
  const named = toolChoice?.mode === ToolChoiceMode.NAMED || toolChoice?.restricted === true;
  const limits = [
    toolChoice?.mode === ToolChoiceMode.NONE ? 0 : Infinity,
    request.parallelToolCalls === false ? 1 : Infinity,
    request.maxToolCalls ?? Infinity,
  ];
  return {
    candidates: request.candidates ?? 1,
    callsMax: Math.min(...limits),
    callable: named ? new Set(toolChoice.tools.map(tool => tool.name)) : undefined,
  };
}

/**
 * Keeps from the client what it did not allow and an upstream sent all the same: further choices, calls beyond the limit, calls of tools
 * outside the choice. Items are renumbered without gaps; a choice whose calls were all dropped did not end for calls.
 */
export class CallFilter implements Stepper<GenerationEvent, GenerationEvent> {
  readonly #rules: CallRules;
  readonly #choices = new Map<number, FilteredChoice>();

  constructor(rules: CallRules) {
    this.#rules = rules;
  }

  push(event: GenerationEvent): GenerationEvent[] {
    if (event.choice >= this.#rules.candidates) return [];
    const item = itemOf(event);
    if (item === undefined && event.event.case !== 'finished') return [event];
    let choice = this.#choices.get(event.choice);
    if (choice === undefined) {
      choice = { calls: 0, dropped: 0, dropping: false };
      this.#choices.set(event.choice, choice);
    }
    if (item === undefined) return [withoutCallFinish(event, choice)];
    if (event.event.case === 'itemOpened') this.#open(choice, event);
    return choice.dropping ? [] : [withItem(event, item - choice.dropped)];
  }

  end(): GenerationEvent[] {
    return [];
  }

  #open(choice: FilteredChoice, { event }: GenerationEvent): void {
    choice.dropping = false;
    const content = event.case === 'itemOpened' ? event.value.content?.content : undefined;
    if (content?.case !== 'toolCall') return;
    const { callsMax, callable } = this.#rules;
    if (choice.calls < callsMax && (callable === undefined || callable.has(content.value.name))) {
      choice.calls += 1;
      return;
    }
    choice.dropping = true;
    choice.dropped += 1;
  }
}

interface FilteredChoice {
  calls: number;
  dropped: number;
  dropping: boolean;
}

function withoutCallFinish(event: GenerationEvent, choice: FilteredChoice): GenerationEvent {
  const { event: ended } = event;
  const noCallLeft = choice.calls === 0 && choice.dropped > 0;
  if (!noCallLeft || ended.case !== 'finished' || ended.value.reason !== FinishReason.TOOL_CALLS) return event;
  return { ...event, event: { case: 'finished', value: { ...ended.value, reason: FinishReason.STOP, native: '' } } };
}
