import type { Item } from '../../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';

/** The limits of an answer's size, in bytes. */
export interface AnswerBounds {
  /** For one choice. */
  readonly choiceBytesMax: number;
  /** For the text of one choice. */
  readonly choiceTextMax: number;
  /** For all choices together. */
  readonly bytesMax: number;
}

/** The assumed size of an event without its texts, and of a token's log probability without its alternatives. */
const eventBytes = 64;
const logprobBytes = 120;

/** Less text than this is always allowed, because short limits are enforced by counting tokens. */
const textLeast = 65_536;
/** The tokens of a long text are never longer than this on average, in any vocabulary. */
const bytesPerToken = 64;

/** Returns how many bytes of text a choice may have if its model has a limit of `outputTokensMax`; Infinity if that is undefined. */
export function textMost(outputTokensMax: number | undefined): number {
  return outputTokensMax === undefined ? Infinity : Math.max(textLeast, outputTokensMax * bytesPerToken);
}

/** Measures everything that an upstream sends for an answer, so that no answer can grow without limit. */
export class AnswerSize {
  readonly #bounds: AnswerBounds;
  /** By choice. They begin with the one choice of most answers, because an empty list would grow to room for 17. */
  readonly #bytes = [0];
  readonly #texts = [0];
  #total = 0;

  constructor(bounds: AnswerBounds) {
    this.#bounds = bounds;
  }

  /** Adds events. Returns false if a limit is exceeded. */
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
      } else if (event.case === 'extension') {
        bytes += event.value.extra?.json.length ?? 0;
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
