import type { Item } from '../../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';

/** The most memory that an answer may take, in bytes. */
export interface AnswerBounds {
  /** For one choice. */
  readonly choiceBytesMax: number;
  /** For the text of one choice. */
  readonly choiceTextMax: number;
  /** For all choices together. */
  readonly bytesMax: number;
}

/** The size of an event besides its texts, and of one token's logprob besides its alternatives. */
const eventBytes = 64;
const logprobBytes = 120;

/** Text of a choice is not judged below this, whatever the model's limit: short limits are kept by counting tokens. */
const textLeast = 65_536;
/** No vocabulary has tokens that are longer than this on average. */
const bytesPerToken = 64;

/** Returns how much text a choice may have if its model gives at most that many tokens; Infinity if unknown. */
export function textMost(outputTokensMax: number | undefined): number {
  return outputTokensMax === undefined ? Infinity : Math.max(textLeast, outputTokensMax * bytesPerToken);
}

/** Counts what an upstream sends of an answer, whatever it sends, so that none grows without end. */
export class AnswerSize {
  readonly #bounds: AnswerBounds;
  /** By choice. */
  readonly #bytes: number[] = [];
  readonly #texts: number[] = [];
  #total = 0;

  constructor(bounds: AnswerBounds) {
    this.#bounds = bounds;
  }

  /** Adds new events. Returns false once a bound is exceeded. */
  take(events: readonly GenerationEvent[]): boolean {
    const { choiceBytesMax, choiceTextMax, bytesMax } = this.#bounds;
    for (const { choice, event } of events) {
      let text = 0;
      let bytes = eventBytes;
      if (event.case === 'delta') {
        const { length } = event.value.text;
        if (event.value.kind === DeltaKind.ECHO) bytes += length;
        else text = length;
        for (const { top } of event.value.logprobs) bytes += logprobBytes * (1 + top.length);
      } else if (event.case === 'itemOpened') {
        text = openedLength(event.value.content?.content);
      } else if (event.case === 'opaqueAdded') {
        bytes += event.value.opaque?.data.length ?? 0;
      }
      this.#total += text + bytes;
      this.#texts[choice] = (this.#texts[choice] ?? 0) + text;
      this.#bytes[choice] = (this.#bytes[choice] ?? 0) + text + bytes;
      if ((this.#texts[choice] ?? 0) > choiceTextMax || (this.#bytes[choice] ?? 0) > choiceBytesMax) return false;
    }
    return this.#total <= bytesMax;
  }
}

/** Returns the length of an item's content when it opens. */
function openedLength(content: Item['content'] | undefined): number {
  if (content?.case === 'toolCall') return content.value.name.length + content.value.arguments.length;
  return content?.case === 'serverTool' ? content.value.json.length : 0;
}
