import { ItemStatus, ToolKind } from '../../gen/tollgate/v1/content_pb.ts';
import { type Finished, FinishReason, type GenerationEvent, type ItemClosed } from '../../gen/tollgate/v1/event_pb.ts';
import { Endpoint, type GenerateRequest, ToolChoiceMode } from '../../gen/tollgate/v1/request_pb.ts';
import { UpstreamFailure } from '../upstream.ts';
import { PerChoice } from './per-choice.ts';
import type { EventStep } from './step.ts';

/**
 * Returns whether an answer with calls keeps the finish reason `stop`, as Chat requires if the client named the function to call. Source:
 * docs/interfaces/README.md "Tool calls".
 */
export function keepsStop({ endpoint, toolChoice }: GenerateRequest): boolean {
  return endpoint === Endpoint.CHAT_COMPLETIONS && toolChoice?.mode === ToolChoiceMode.NAMED;
}

/**
 * Makes finish reasons and calls consistent, so that agents can rely on them. A call whose arguments are not a JSON object is marked as incomplete, which is valid only if the answer was cut off. An answer with complete calls that was not cut off gets the finish reason for calls. Throws `UpstreamFailure` `malformed` if the upstream reports
 * success for an answer with an incomplete call. Items must not interleave.
 */
export class CallCheck implements EventStep {
  readonly #choices: PerChoice<CheckedChoice, boolean>;
  readonly #next: EventStep;

  /** `stopStays`: see `keepsStop`. */
  constructor(next: EventStep, stopStays: boolean) {
    this.#next = next;
    this.#choices = new PerChoice(newCheckedChoice, stopStays);
  }

  push(event: GenerationEvent): void {
    const { event: step } = event;
    switch (step.case) {
      case 'itemOpened': {
        const content = step.value.content?.content;
        this.#choices.get(event.choice).open(content?.case === 'toolCall' ? content.value.kind : undefined);
        this.#next.push(event);
        return;
      }
      case 'delta':
        this.#choices.get(event.choice).add(step.value.text);
        this.#next.push(event);
        return;
      case 'itemClosed': {
        const value = this.#choices.get(event.choice).close(step.value);
        this.#next.push(value === step.value ? event : { ...event, event: { case: 'itemClosed', value } });
        return;
      }
      case 'finished': {
        const value = this.#choices.get(event.choice).finish(step.value);
        this.#next.push(value === step.value ? event : { ...event, event: { case: 'finished', value } });
        return;
      }
      default:
        this.#next.push(event);
    }
  }
}

const newCheckedChoice = (_: number, stopStays: boolean): CheckedChoice => new CheckedChoice(stopStays);

class CheckedChoice {
  readonly #stopStays: boolean;
  /** The kind of the open call; undefined: no call is open. */
  #kind: ToolKind | undefined;
  /** The arguments of the open function call so far. */
  #arguments = '';
  #hasComplete = false;
  #hasIncomplete = false;

  constructor(stopStays: boolean) {
    this.#stopStays = stopStays;
  }

  open(kind: ToolKind | undefined): void {
    this.#kind = kind;
    this.#arguments = '';
  }

  add(text: string): void {
    if (this.#kind !== undefined && this.#kind !== ToolKind.CUSTOM) this.#arguments += text;
  }

  close(closed: ItemClosed): ItemClosed {
    const kind = this.#kind;
    this.#kind = undefined;
    if (kind === undefined) return closed;
    const isWhole =
      closed.status !== ItemStatus.INCOMPLETE && (kind === ToolKind.CUSTOM || isJsonObject(this.#arguments));
    this.#arguments = '';
    if (isWhole) {
      this.#hasComplete = true;
      return closed;
    }
    this.#hasIncomplete = true;
    return closed.status === ItemStatus.INCOMPLETE ? closed : { ...closed, status: ItemStatus.INCOMPLETE };
  }

  finish(finished: Finished): Finished {
    switch (finished.reason) {
      case FinishReason.STOP:
      case FinishReason.TOOL_CALLS:
        if (this.#hasIncomplete) throw incompleteCall(finished);
        return this.#hasComplete && !this.#stopStays ? { ...finished, reason: FinishReason.TOOL_CALLS } : finished;
      case FinishReason.LENGTH:
      case FinishReason.CONTEXT_WINDOW:
      case FinishReason.CONTENT_FILTER:
      case FinishReason.REFUSAL:
        return finished;
      default:
        // Some clients treat an unknown finish reason as a request to call tools.
        return this.#hasIncomplete ? { ...finished, reason: FinishReason.LENGTH } : finished;
    }
  }
}

function isJsonObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

function incompleteCall({ native }: Finished): UpstreamFailure {
  const message = `The upstream ended with ${native === '' ? 'success' : native} in the middle of a tool call.`;
  return new UpstreamFailure('malformed', { message });
}
