import type { Completed, GenerationEvent, Started } from '../gen/tollgate/v1/event_pb.ts';
import { dollarsText } from '../lib/dollars.ts';
import { windowOf } from '../rpc/errors.ts';
import type { AnswerHeaders, Call } from './call.ts';
import { limitHeaders } from './limit-headers.ts';

/** What the headers, the log line and the metrics of a generation need of its events. */
export class GenerationFacts {
  started: Started | undefined;
  completed: Completed | undefined;
  /** Until the first event came; undefined before it. */
  firstEventMs: number | undefined;
  readonly #call: Call;
  readonly #isRepeatable: boolean;

  /** `isRepeatable`: the request carries an Idempotency-Key, so that its answer may be an earlier request's. */
  constructor(call: Call, isRepeatable: boolean) {
    this.#call = call;
    this.#isRepeatable = isRepeatable;
  }

  /** The id of the request that was answered first, where this answer repeats it. */
  get repeatedId(): string | undefined {
    if (!this.#isRepeatable || this.started?.requestId === this.#call.id) return undefined;
    return this.started?.requestId;
  }

  /** Looks at a batch as it passes. */
  observe(events: readonly GenerationEvent[], elapsedMs: () => number): void {
    this.firstEventMs ??= elapsedMs();
    for (const { event } of events) {
      if (event.case === 'started') this.started ??= event.value;
      else if (event.case === 'completed') this.completed = event.value;
    }
  }

  /** The headers that a stream can have: request windows, warnings, route. */
  streamHeaders(nowMs: number): AnswerHeaders {
    const { started } = this;
    if (started === undefined) return {};
    const headers = limitHeaders(started.limits.map(windowOf), nowMs);
    if (started.warnings.length > 0) headers['x-tollgate-warnings'] = warningsText(started.warnings);
    if (started.route !== '') headers['x-tollgate-route'] = headerText(started.route);
    const repeated = this.repeatedId;
    if (repeated === undefined) return headers;
    // By this id the account finds the one request that was made.
    for (const name of ['x-request-id', 'request-id']) if (name in this.#call.headers) headers[name] = repeated;
    headers['idempotent-replayed'] = 'true';
    return headers;
  }

  /** The headers of a whole answer: those of a stream, and the cost. */
  wholeHeaders(nowMs: number): AnswerHeaders {
    const headers = this.streamHeaders(nowMs);
    if (this.completed !== undefined) headers['x-tollgate-cost'] = dollarsText(this.completed.costNanoUsd);
    return headers;
  }

  /** What the request's record is told. */
  record(): { model?: string; firstEventMs?: number; completed?: Completed; repeats?: string } {
    const { started, completed, firstEventMs } = this;
    const repeats = this.repeatedId;
    // Nothing was generated: its tokens and its cost were counted the first time.
    if (repeats !== undefined) return { ...(started === undefined ? {} : { model: started.model }), repeats };
    return {
      ...(started === undefined ? {} : { model: started.model }),
      ...(firstEventMs === undefined ? {} : { firstEventMs }),
      ...(completed === undefined ? {} : { completed }),
    };
  }
}

/** Clients refuse answers whose headers are larger than 8 to 16 KiB together. */
const warningsLengthMax = 4096;

/** Warnings as one header value; what does not fit is cut at a comma and marked by "…" (percent-encoded). */
function warningsText(warnings: readonly string[]): string {
  const text = headerText(warnings.join('; '));
  if (text.length <= warningsLengthMax) return text;
  const cut = text.lastIndexOf(',', warningsLengthMax);
  return `${text.slice(0, cut === -1 ? warningsLengthMax : cut)},%E2%80%A6`;
}

/** A text as a header value: whatever is no printable ASCII is percent-encoded, since warnings name the client's own fields. */
function headerText(text: string): string {
  return text.toWellFormed().replaceAll(/[^\x20-\x7e]+/g, encodeURIComponent);
}
