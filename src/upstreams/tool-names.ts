import { createHash } from 'node:crypto';
import type { Item } from '../gen/tollgate/v1/content_pb.ts';
import type { GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import type { GenerateRequest, Tool } from '../gen/tollgate/v1/request_pb.ts';
import { toolName } from '../generation/check/check-request.ts';
import { itemOpened } from '../generation/events.ts';

/** The longest replacement. Every protocol accepts this length. */
const nameMax = 64;
const hashLength = 12;

/**
 * Replaces tool names that an upstream's protocol does not accept (because they are too long or have other characters), and restores the client's names in calls. A replacement depends only on the client's name, so that it is the same in all requests of a conversation. Source: case TR-11 of test/translation/cases.json.
 */
export class ToolNames {
  /** The request with names that the upstream accepts; the same object if it accepts all names. */
  readonly request: GenerateRequest;
  readonly #legal: RegExp;
  /** The client's names, by the names that the upstream got; undefined: no name was replaced. */
  readonly #own: Map<string, string> | undefined;

  /** `legal` matches the names that the upstream accepts. */
  constructor(request: GenerateRequest, legal: RegExp) {
    this.#legal = legal;
    const fits = this.#fits(request);
    this.#own = fits ? undefined : new Map();
    this.request = fits ? request : this.#rename(request);
  }

  /** Returns the events with the client's names in calls. */
  restored(events: GenerationEvent[]): GenerationEvent[] {
    return this.#own === undefined ? events : events.map(event => this.#restore(event));
  }

  #fits({ tools, items }: GenerateRequest): boolean {
    return (
      tools.every(tool => this.#legal.test(toolName(tool) ?? 'none')) &&
      items.every(({ content }) => content.case !== 'toolCall' || this.#legal.test(content.value.name))
    );
  }

  #rename(request: GenerateRequest): GenerateRequest {
    const { toolChoice } = request;
    const renamed = {
      ...request,
      tools: request.tools.map(tool => this.#tool(tool)),
      items: request.items.map(item => this.#item(item)),
    };
    if (toolChoice === undefined) return renamed;
    return { ...renamed, toolChoice: { ...toolChoice, tools: toolChoice.tools.map(tool => this.#named(tool)) } };
  }

  #tool(tool: Tool): Tool {
    const { case: kind, value } = tool.tool;
    if (kind === 'function') return { ...tool, tool: { case: kind, value: this.#named(value) } };
    return kind === 'custom' ? { ...tool, tool: { case: kind, value: this.#named(value) } } : tool;
  }

  #item(item: Item): Item {
    const { case: kind, value } = item.content;
    if (kind === 'toolCall') return { ...item, content: { case: kind, value: this.#named(value) } };
    if (kind !== 'toolResult' || value.name === '') return item;
    return { ...item, content: { case: kind, value: this.#named(value) } };
  }

  #named<Value extends { name: string }>(value: Value): Value {
    return { ...value, name: this.#nameFor(value.name) };
  }

  #nameFor(name: string): string {
    if (this.#legal.test(name)) return name;
    const letters = name.replaceAll(/[^a-zA-Z0-9_-]/g, '_');
    const hash = createHash('sha256').update(name).digest('hex').slice(0, hashLength);
    const start = /^[a-zA-Z_]/.test(letters) ? letters : `_${letters}`;
    const fit = `${start.slice(0, nameMax - hashLength - 1)}_${hash}`;
    this.#own?.set(fit, name);
    return fit;
  }

  #restore(whole: GenerationEvent): GenerationEvent {
    const { choice, event } = whole;
    if (event.case !== 'itemOpened') return whole;
    const { item, content: opened } = event.value;
    if (opened?.content.case !== 'toolCall') return whole;
    const name = this.#own?.get(opened.content.value.name);
    if (name === undefined) return whole;
    return itemOpened(choice, item, {
      ...opened,
      content: { case: 'toolCall', value: { ...opened.content.value, name } },
    });
  }
}
