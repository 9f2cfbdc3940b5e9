import { type Item, Phase } from '../gen/tollgate/v1/content_pb.ts';
import { type Completed, type Finished, FinishReason, type GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import type { FoldedChoice } from './fold.ts';
import { EventFold } from './fold.ts';
import { outputItemId } from './response-ids.ts';
import { callIdFor } from './call-id.ts';

/** The states of a response. Source: docs/interfaces/responses.md "States". */
export type ResponseStatus = 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled';

/** The response as far as it is known. */
export interface ResponseOutcome {
  readonly status: ResponseStatus;
  /** The output, with public ids. Messages have a phase if it is already known. */
  readonly items: readonly Item[];
  /** How the generation finished; absent if it still runs, failed or was cancelled. */
  readonly finished?: Finished | undefined;
  /** The usage, cost, service tier and end time; absent unless the complete answer was charged. */
  readonly completed?: Completed | undefined;
  /** Why it failed; absent if it did not. */
  readonly error?: { readonly code: string; readonly message: string } | undefined;
  /** JSON members that an upstream of the same protocol sent and for which the protobuf messages have no field. */
  readonly extensions?: FoldedChoice['extensions'];
}

/**
 * Builds a response from events. Items get their public ids. A message to which the upstream gave no phase gets one: commentary if the same response calls a tool later, else the final answer. Source: docs/interfaces/responses.md "States"; case RO-13 of test/translation/cases.json.
 */
export class ResponseFold {
  readonly #responseId: string;
  readonly #fold = new EventFold();

  constructor(responseId: string) {
    this.#responseId = responseId;
  }

  add(event: GenerationEvent): void {
    this.#fold.add(event);
    if (event.event.case === 'itemOpened') this.#opened(event.event.value.item);
    else if (event.event.case === 'finished') this.settle();
  }

  /** Marks messages that have no phase yet as the final answer. */
  settle(): void {
    this.#settlePhases(Phase.FINAL_ANSWER);
  }

  /** The items in the order of the output. Later events change these objects. */
  get items(): readonly Item[] {
    return this.#fold.choices[0]?.items ?? [];
  }

  /** The response as far as it is known. The status is `in_progress` until the events are complete, then `completed` or `incomplete`. */
  get outcome(): ResponseOutcome {
    const { completed, choices } = this.#fold;
    const [choice] = choices;
    const isWhole = completed !== undefined && choice?.finished !== undefined;
    const reason = choice?.finished === undefined ? undefined : incompleteReason(choice.finished, choice.items);
    const whole = reason === undefined ? 'completed' : 'incomplete';
    return {
      status: isWhole ? whole : 'in_progress',
      items: this.items,
      finished: choice?.finished,
      completed,
      extensions: choice?.extensions ?? [],
    };
  }

  #opened(number: number): void {
    const item = this.items.at(-1);
    if (item === undefined) return;
    item.id = outputItemId(this.#responseId, item, number);
    const { content } = item;
    if (content.case === 'toolCall') {
      content.value.callId = callIdFor(content.value.callId, item.id.replace(/^[a-z]+/, 'call'));
    }
    if (content.case === 'toolCall' || content.case === 'serverTool') this.#settlePhases(Phase.COMMENTARY);
  }

  #settlePhases(phase: Phase): void {
    for (const { content } of this.items) {
      if (content.case === 'message' && content.value.phase === Phase.UNSPECIFIED) content.value.phase = phase;
    }
  }
}

/** Returns the outcome of events, complete or partial. */
export function toOutcome(responseId: string, events: readonly GenerationEvent[]): ResponseOutcome {
  const fold = new ResponseFold(responseId);
  for (const event of events) fold.add(event);
  return fold.outcome;
}

/**
 * Returns why a response is incomplete; undefined if it is complete. A refusal text counts as a refusal. Source:
 * docs/interfaces/responses.md "States".
 */
export function incompleteReason({ reason }: Finished, items: readonly Item[]): string | undefined {
  switch (reason) {
    case FinishReason.LENGTH:
    case FinishReason.CONTEXT_WINDOW:
      return 'max_output_tokens';
    case FinishReason.CONTENT_FILTER:
    case FinishReason.REFUSAL:
      return 'content_filter';
    default:
      return items.some(hasRefusal) ? 'content_filter' : undefined;
  }
}

function hasRefusal({ content }: Item): boolean {
  return content.case === 'message' && content.value.parts.some(part => part.content.case === 'refusal');
}
