import assert from 'node:assert/strict';
import { type Completed, ExtensionScope, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import type { DecodedRequest, JsonObject } from '../codec.ts';
import { CandidateRenderer } from './candidate-renderer.ts';
import { extras } from './extras.ts';
import { renderUsage } from './render-usage.ts';

/**
 * Renders events as responses of generateContent: each chunk of a stream is a complete response with what is new, and the last one has the finish reasons and
 * the usage, so that an answer that a client sees finished is in the ledger. Source: docs/interfaces/gemini.md "Answer".
 */
export class AnswerRenderer {
  readonly #showsThoughts: boolean;
  /** By index. An entry is undefined if a candidate with a higher index began and this one did not. */
  readonly #candidates: (CandidateRenderer | undefined)[] = [];
  /** The members that identify the answer; a Gemini provider's own where it sends them. */
  #identity: JsonObject = {};
  /** Members of the response that wait for a chunk. */
  #members: JsonObject = {};
  #wasBlocked = false;
  #completed: Completed | undefined;
  /** True once the last chunk was taken. */
  #isOver = false;

  constructor({ showsThoughts }: Pick<DecodedRequest, 'showsThoughts'>) {
    this.#showsThoughts = showsThoughts === true;
  }

  push({ choice, event }: GenerationEvent): void {
    switch (event.case) {
      case 'started': {
        const { model, requestId, extra } = event.value;
        this.#identity = { modelVersion: model, responseId: requestId };
        this.#extend(extras.members(extra));
        return;
      }
      case 'completed':
        this.#completed = event.value;
        break;
      case 'usageReported':
        break;
      case 'extension': {
        const { scope, extra, item } = event.value;
        if (scope === ExtensionScope.ITEM) {
          if (extra !== undefined && item !== undefined) this.#candidate(choice).addImage(item, extra);
          return;
        }
        const members = extras.members(extra);
        if (event.value.scope === ExtensionScope.RESPONSE) this.#extend(members);
        else if (event.value.scope === ExtensionScope.CHOICE) this.#candidate(choice).extend(members);
        else if (event.value.scope === ExtensionScope.DELTA) {
          this.#candidate(choice).extendContent(event.value.item, members);
        }
        return;
      }
      default:
        this.#candidate(choice).push(event);
    }
  }

  /** Returns what waits as a chunk; undefined if nothing does. After `completed` it is the last chunk. */
  take(): JsonObject | undefined {
    if (this.#isOver) return undefined;
    if (this.#completed !== undefined) {
      this.#isOver = true;
      return this.whole();
    }
    const candidates = this.#candidates.flatMap(each => each?.take() ?? []);
    return candidates.length === 0 ? undefined : { candidates, ...this.#takeMembers(), ...this.#identity };
  }

  /** Returns everything that waits as the last, or only, response. Throws if the answer is not complete. */
  whole(): JsonObject {
    assert(this.#completed !== undefined, 'the generation ended without completed');
    const isEmpty = this.#wasBlocked && !this.#candidates.some(each => each?.hasContent === true);
    const candidates = isEmpty ? [] : this.#candidates.flatMap(each => each?.finish() ?? []);
    return {
      ...(isEmpty ? {} : { candidates }),
      ...this.#takeMembers(),
      usageMetadata: renderUsage(this.#completed),
      ...this.#identity,
    };
  }

  /** Throws if the last chunk was not taken. */
  checkComplete(): void {
    assert(this.#isOver, 'the generation ended without completed');
  }

  #candidate(index: number): CandidateRenderer {
    let candidate = this.#candidates[index];
    if (candidate === undefined) {
      candidate = new CandidateRenderer(index, this.#showsThoughts);
      this.#candidates[index] = candidate;
    }
    return candidate;
  }

  #extend({ modelVersion, responseId, ...members }: JsonObject): void {
    if (modelVersion !== undefined) this.#identity['modelVersion'] = modelVersion;
    if (responseId !== undefined) this.#identity['responseId'] = responseId;
    if (members['promptFeedback'] !== undefined) this.#wasBlocked = true;
    Object.assign(this.#members, members);
  }

  #takeMembers(): JsonObject {
    const members = this.#members;
    this.#members = {};
    return members;
  }
}

/** Renders the whole answer. It has the same content as the chunks of the same events together. */
export function renderWhole(events: readonly GenerationEvent[], decoded: DecodedRequest): JsonObject {
  const renderer = new AnswerRenderer(decoded);
  for (const event of events) renderer.push(event);
  return renderer.whole();
}
