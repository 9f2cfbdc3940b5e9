import {
  type Completed,
  FinishReason,
  type GenerationEvent,
  type LimitState,
  type Started,
} from '../gen/tollgate/v1/event_pb.ts';
import type { ResponseEnd, ResponseHead } from '../gen/tollgate/v1/response_pb.ts';
import { toRequestId } from '../generation/response-ids.ts';
import { dollarsText } from '../lib/dollars.ts';
import { type AnswerHeaders, type Call, setRepeated } from './call.ts';
import { addLimitHeaders } from './limit-headers.ts';
import type { RequestOutcome } from './request-record.ts';

/** A message of an answer, whichever method of the core it comes from. */
export interface AnswerMessage {
  readonly events: GenerationEvent[];
  /** The response's first message, with its id and settings. */
  readonly head?: ResponseHead | undefined;
  /** The request windows of the key, in the first message of a response. */
  readonly limits?: readonly LimitState[];
  /** The end of a background response, in its last message. */
  readonly end?: ResponseEnd | undefined;
}

/** Collects from a generation's events what its headers, log line and metrics need. */
export class GenerationFacts {
  readonly #call: Call;
  #started: Started | undefined;
  #completed: Completed | undefined;
  #limits: readonly LimitState[] = [];
  #firstEventMs: number | undefined;
  /** The finish reason of the first choice that ended. */
  #finish: FinishReason | undefined;
  /** The id of the request that the answer was made for, if a response reports it. */
  #answered: string | undefined;

  constructor(call: Call) {
    this.#call = call;
  }

  /** The answer is whole and charged. */
  get isCompleted(): boolean {
    return this.#completed !== undefined;
  }

  /** The id of the request that was answered first, if this answer repeats it. */
  get repeatedId(): string | undefined {
    const answered = this.#answered ?? this.#started?.requestId;
    return this.#call.isRepeatable && answered !== this.#call.id ? answered : undefined;
  }

  /** Takes the facts that are known before any event: the request that the answer was made for, and the key's windows. */
  setAnswer(requestId: string | undefined, limits: readonly LimitState[]): void {
    this.#answered = requestId;
    this.#limits = limits;
  }

  /** Reads a message as it passes. */
  observe({ events, head, limits = [] }: AnswerMessage): void {
    if (head !== undefined) this.setAnswer(toRequestId(head.id), limits);
    if (events.length === 0) return;
    this.#firstEventMs ??= this.#call.elapsedMs();
    for (const { event } of events) {
      if (event.case === 'completed') this.#completed = event.value;
      else if (event.case === 'finished') this.#finish ??= event.value.reason;
      else if (event.case === 'started' && this.#started === undefined) {
        this.#started = event.value;
        if (event.value.limits.length > 0) this.#limits = event.value.limits;
      }
    }
  }

  /** Adds the facts that are known before the end: request windows, warnings, route, and whether it is a repeat. */
  addHeaders(headers: AnswerHeaders, nowMs: number): AnswerHeaders {
    addLimitHeaders(headers, this.#limits, nowMs);
    if (this.#started !== undefined) {
      const { warnings, route } = this.#started;
      if (warnings.length > 0) headers['x-tollgate-warnings'] = warningsText(warnings);
      if (route !== '') headers['x-tollgate-route'] = headerText(route);
    }
    const repeated = this.repeatedId;
    if (repeated !== undefined) setRepeated(headers, repeated);
    return headers;
  }

  /** Adds the headers of a whole answer: those that are known before its end, and the cost. */
  addWholeHeaders(headers: AnswerHeaders, nowMs: number): AnswerHeaders {
    this.addHeaders(headers, nowMs);
    if (this.#completed !== undefined) headers['x-tollgate-cost'] = dollarsText(this.#completed.costNanoUsd);
    return headers;
  }

  /**
   * Returns the outcome for the request's record. A repeat generates nothing: its tokens and its cost were counted
   * the first time.
   */
  outcome(status: number): RequestOutcome {
    const model = this.#started?.model;
    const repeats = this.repeatedId;
    if (repeats !== undefined) return { status, model, repeats };
    const finish = this.#finish === undefined ? undefined : finishNames[this.#finish];
    return { status, model, finish, firstEventMs: this.#firstEventMs, completed: this.#completed };
  }
}

/** The finish reasons in logs and traces. */
const finishNames: Readonly<Partial<Record<FinishReason, string>>> = {
  [FinishReason.STOP]: 'stop',
  [FinishReason.LENGTH]: 'length',
  [FinishReason.TOOL_CALLS]: 'tool_calls',
  [FinishReason.CONTENT_FILTER]: 'content_filter',
  [FinishReason.REFUSAL]: 'refusal',
  [FinishReason.CONTEXT_WINDOW]: 'context_window',
  [FinishReason.OTHER]: 'other',
};

/** Clients refuse answers whose headers exceed 8 to 16 KiB in total. */
const warningsLengthMax = 4096;

/** Warnings as one header value; what does not fit is cut at a comma and marked by "…" (percent-encoded). */
export function warningsText(warnings: readonly string[]): string {
  const text = headerText(warnings.join('; '));
  if (text.length <= warningsLengthMax) return text;
  const cut = text.lastIndexOf(',', warningsLengthMax);
  return `${text.slice(0, cut === -1 ? warningsLengthMax : cut)},%E2%80%A6`;
}

/** Encodes a text as a header value: everything but printable ASCII is percent-encoded, because warnings name the client's own fields. */
function headerText(text: string): string {
  return text.toWellFormed().replaceAll(/[^\x20-\x7e]+/g, encodeURIComponent);
}
