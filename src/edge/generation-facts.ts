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

/** A message of an answer, from any method of the core that generates. */
export interface AnswerMessage {
  readonly events: GenerationEvent[];
  /** The response's id and settings; only in the first message of a response. */
  readonly head?: ResponseHead | undefined;
  /** The state of the key's request limits; only in the first message of a response. */
  readonly limits?: readonly LimitState[];
  /** How a background response ended; only in its last message. */
  readonly end?: ResponseEnd | undefined;
}

/** Collects, from a generation's events, what the headers, the log line and the metrics need. */
export class GenerationFacts {
  readonly #call: Call;
  #started: Started | undefined;
  /** Warnings about content of the answer. */
  readonly #lost: string[] = [];
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

  /** True if the answer is complete and charged. */
  get isCompleted(): boolean {
    return this.#completed !== undefined;
  }

  /** The id of the earlier request, if this answer repeats an earlier one; else undefined. */
  get repeatedId(): string | undefined {
    const answered = this.#answered ?? this.#started?.requestId;
    return this.#call.isRepeatable && answered !== this.#call.id ? answered : undefined;
  }

  /** Sets what is known before any event: the id of the request that the answer was made for, and the state of the key's request limits. */
  setAnswer(requestId: string | undefined, limits: readonly LimitState[]): void {
    this.#answered = requestId;
    this.#limits = limits;
  }

  /** Reads the facts in a message. */
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

  /** Adds warnings about content of the answer, before its headers are written. */
  addWarnings(warnings: readonly string[] = []): void {
    this.#lost.push(...warnings);
  }

  /** Adds the headers that are known before the end: rate limits, warnings, route, and whether the answer is a repeat. */
  addHeaders(headers: AnswerHeaders, nowMs: number): AnswerHeaders {
    addLimitHeaders(headers, this.#limits, nowMs);
    if (this.#started !== undefined) {
      const { route } = this.#started;
      const warnings = [...this.#started.warnings, ...this.#lost];
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
   * Returns the outcome for the request's log line and metrics. A repeat generates nothing: its tokens and its cost were counted the first
   * time.
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

/** Returns warnings as one header value. A text that is too long is cut at a comma, and ends with "…" (percent-encoded). */
export function warningsText(warnings: readonly string[]): string {
  const text = headerText(warnings.join('; '));
  if (text.length <= warningsLengthMax) return text;
  const cut = text.lastIndexOf(',', warningsLengthMax);
  return `${text.slice(0, cut === -1 ? warningsLengthMax : cut)},%E2%80%A6`;
}

/** Encodes a text as a header value: everything except printable ASCII is percent-encoded, because warnings can contain names of the client's fields. */
function headerText(text: string): string {
  return text.toWellFormed().replaceAll(/[^\x20-\x7e]+/g, encodeURIComponent);
}
