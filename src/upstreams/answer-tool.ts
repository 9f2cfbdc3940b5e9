import { Role } from '../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, FinishReason, type GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import { delta, finished, itemClosed, itemOpened, partClosed, partOpened } from '../generation/events.ts';
import { makeItem, messageContent, makePart, textContent } from '../codecs/content.ts';

/**
 * Restores answers with an output schema if the upstream got the schema as a tool: the call of that tool becomes text again. Source:
 * docs/interfaces/README.md "Translation" (json schema).
 */
export class AnswerTool {
  readonly #name: string;
  /** The open calls of the tool, by choice and item. */
  readonly #open = new Set<string>();
  /** The choices that call other tools. */
  readonly #calling = new Set<number>();

  /** `name`: the name of that tool, which no tool of the client has. */
  constructor(name: string) {
    this.#name = name;
  }

  /** Returns the events with calls of the tool converted to text. */
  restored(events: readonly GenerationEvent[]): GenerationEvent[] {
    return events.flatMap(event => this.#restore(event));
  }

  #restore(whole: GenerationEvent): GenerationEvent[] {
    const { choice, event } = whole;
    switch (event.case) {
      case 'itemOpened': {
        const content = event.value.content?.content;
        if (content?.case !== 'toolCall') return [whole];
        if (content.value.name !== this.#name) {
          this.#calling.add(choice);
          return [whole];
        }
        const { item } = event.value;
        this.#open.add(`${choice} ${item}`);
        return [
          itemOpened(choice, item, makeItem(messageContent(Role.ASSISTANT, []), 0)),
          partOpened(choice, [item, 0], makePart(textContent(''))),
        ];
      }
      case 'delta': {
        const { item, text } = event.value;
        if (!this.#open.has(`${choice} ${item}`)) return [whole];
        return [delta(choice, [item, 0], { kind: DeltaKind.TEXT, text })];
      }
      case 'itemClosed': {
        const { item, status } = event.value;
        if (!this.#open.delete(`${choice} ${item}`)) return [whole];
        return [partClosed(choice, [item, 0]), itemClosed(choice, item, status)];
      }
      case 'finished': {
        const { reason, native } = event.value;
        if (reason !== FinishReason.TOOL_CALLS || this.#calling.has(choice)) return [whole];
        return [finished(choice, FinishReason.STOP, { native })];
      }
      default:
        return [whole];
    }
  }
}
