import { type Extra, ItemStatus, Protocol, type ServerTool } from '../../gen/tollgate/v1/content_pb.ts';
import { ExtensionScope, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import type { Pricing } from '../../gen/tollgate/v1/catalog_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import type { ToolCharge } from '../price.ts';
import { nameFeature } from '../priced-features.ts';
import { readToolTerms, type ToolTerm } from '../tool-terms.ts';
import { GroundingCount } from './grounding-count.ts';

type ProtocolJson = Pick<ServerTool, 'protocol' | 'json'>;

const none: readonly ToolCharge[] = [];

/** No more calls of one tool than this are charged for a request: a wrong report must not empty an account. */
const callsPerRequestMax = 1_000;

/** The report of an ended attempt about tools. `extra`: the unknown members of the upstream's usage. `isEmpty`: nothing of an answer arrived. */
export interface ToolReport {
  readonly extra: Extra | undefined;
  readonly isEmpty: boolean;
}

/** Counts the calls of priced tools that an upstream has made: from its usage if that has a count, else from the items of its answer. */
export class ToolCallCount {
  readonly #terms: readonly ToolTerm[];
  readonly #candidates: number;
  /** Undefined: none. */
  #items: Map<string, number> | undefined;
  /** The tool's item that opened last and has not closed yet; undefined: another item did. */
  #opened: ProtocolJson | undefined;
  #grounding = new GroundingCount();
  /** Fields of the request that the upstream did not get. */
  #dropped: readonly string[] = [];
  /** The counts of earlier attempts of the same answer, which was continued after a pause. */
  #before: Map<string, number> | undefined;

  constructor(request: GenerateRequest, pricing: Pricing | undefined) {
    this.#terms = pricing === undefined ? [] : readToolTerms(request, pricing);
    this.#candidates = request.candidates ?? 1;
  }

  /** The priced tools that the upstream may run; undefined: none. */
  get paidTools(): readonly string[] | undefined {
    return this.#terms.length === 0 ? undefined : this.#terms.map(({ tool }) => tool);
  }

  /** Counts the tool calls in events as they came from the upstream. */
  count(events: readonly GenerationEvent[]): void {
    if (this.#terms.length === 0) return;
    for (const { choice, event } of events) {
      if (event.case === 'started') this.#dropped = event.value.warnings.flatMap(listDropped);
      else if (event.case === 'itemOpened') {
        const content = event.value.content?.content;
        this.#opened = content?.case === 'serverTool' ? content.value : undefined;
      } else if (event.case === 'itemClosed') {
        if (event.value.status !== ItemStatus.IN_PROGRESS) this.#add(this.#opened);
        this.#opened = undefined;
      } else if (event.case === 'extension') {
        if (event.value.scope === ExtensionScope.ITEM) this.#add(event.value.extra);
        else this.#grounding.take(choice, event.value.extra);
      }
    }
  }

  #add(item: ProtocolJson | undefined): void {
    const feature = item === undefined ? undefined : findPricedFeature(item);
    if (feature === undefined) return;
    this.#items ??= new Map();
    this.#items.set(feature, (this.#items.get(feature) ?? 0) + 1);
  }

  /** Forgets the calls of an attempt whose output was not delivered. */
  restart(): void {
    this.#items = undefined;
    this.#opened = undefined;
    this.#grounding = new GroundingCount();
  }

  /** Keeps the counts of an attempt that has ended, because the answer continues in another attempt. */
  carry(report: ToolReport): void {
    const charges = this.charges(report);
    this.#before = new Map(charges.map(({ tool, calls }) => [tool, calls]));
    this.restart();
  }

  /** Returns the charges of all attempts of the answer; `extra` and `isEmpty` are those of its last attempt. */
  charges({ extra, isEmpty }: ToolReport): readonly ToolCharge[] {
    if (this.#terms.length === 0) return none;
    const candidates = this.#candidates;
    const readCount = reportedCountReader(extra);
    return this.#terms.flatMap(({ tool, nanoUsd, callsMax = callsPerRequestMax, member }) => {
      const seen = (this.#items?.get(tool) ?? 0) + this.#grounding.calls(tool);
      const reportedCount = readCount(tool);
      const isSure = member !== undefined && !isEmpty && !this.#dropped.includes(member);
      const least = isSure ? candidates : 0;
      // Several candidates may come from several upstream requests, of whose reports only one is known.
      const now = candidates > 1 ? Math.max(reportedCount ?? 0, seen) : (reportedCount ?? seen);
      const made = (this.#before?.get(tool) ?? 0) + (reportedCount === undefined ? Math.max(now, least) : now);
      const calls = Math.min(made, callsMax * candidates, callsPerRequestMax);
      return calls === 0 ? [] : [{ tool, calls, nanoUsd }];
    });
  }
}

function listDropped(warning: string): string[] {
  const [, names] = /^dropped=(.*)$/.exec(warning) ?? [];
  return names?.split(',') ?? [];
}

/** Returns the priced feature that an item is a call of; undefined if the item is a result, or a step that is free. */
function findPricedFeature({ protocol, json }: ProtocolJson): string | undefined {
  const item = JSON.parse(json) as Record<string, unknown>;
  const { type, name, action } = item;
  if (protocol === Protocol.GEMINI) return 'executableCode' in item ? 'code_execution' : undefined;
  if (protocol === Protocol.MESSAGES) {
    if (type !== 'server_tool_use' || typeof name !== 'string') return undefined;
    // Anthropic's code-execution tools have several names.
    return name.endsWith('code_execution') ? 'code_execution' : nameFeature(name);
  }
  if (typeof type !== 'string' || !type.endsWith('_call')) return undefined;
  // OpenAI charges for searches, not for opening the pages that they found.
  const step = typeof action === 'object' && action !== null && 'type' in action ? action.type : 'search';
  return step === 'search' || type !== 'web_search_call' ? nameFeature(type) : undefined;
}

/**
 * Returns a function that reads the count of a tool from an upstream's usage. Sources: Anthropic and OpenRouter (`server_tool_use`),
 * Perplexity (`num_search_queries`), 2026-11.
 */
function reportedCountReader(extra: Extra | undefined): (tool: string) => number | undefined {
  if (extra === undefined) return () => undefined;
  const usage = JSON.parse(extra.json) as Record<string, unknown>;
  const { server_tool_use: byTool, num_search_queries: queries } = usage;
  const requests = typeof byTool === 'object' && byTool !== null ? (byTool as Record<string, unknown>) : {};
  return tool => toCount(requests[`${tool}_requests`]) ?? (tool === 'web_search' ? toCount(queries) : undefined);
}

function toCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}
