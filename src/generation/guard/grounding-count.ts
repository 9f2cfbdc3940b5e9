import { type Extra, Protocol } from '../../gen/tollgate/v1/content_pb.ts';

/**
 * Counts what a Gemini model searched, from the `groundingMetadata` of its candidates. Google charges each query, and before Gemini 3 each prompt that was grounded, however many
 * queries it caused. Source: ai.google.dev, "Gemini Developer API pricing", 2026-11.
 */

type JsonObject = { readonly [name: string]: unknown };

/** The searches of one answer. */
export class GroundingCount {
  /** The most queries that a chunk of each candidate had: a stream may repeat them. */
  readonly #queries = new Map<number, number>();
  readonly #withMaps = new Set<number>();
  #isByPrompt = false;

  /** Reads members of a response or of a candidate. */
  take(choice: number, extra: Extra | undefined): void {
    if (extra?.protocol !== Protocol.GEMINI) return;
    const { modelVersion, groundingMetadata } = JSON.parse(extra.json) as JsonObject;
    if (typeof modelVersion === 'string') this.#isByPrompt = /gemini-[12]\b/.test(modelVersion);
    const grounding = objectIn(groundingMetadata);
    if (grounding === undefined) return;
    const queries = listIn(grounding['webSearchQueries']).length + listIn(grounding['imageSearchQueries']).length;
    const chunks = listIn(grounding['groundingChunks']).map(objectIn);
    const least = chunks.some(chunk => chunk?.['web'] !== undefined || chunk?.['image'] !== undefined) ? 1 : 0;
    this.#queries.set(choice, Math.max(this.#queries.get(choice) ?? 0, queries, least));
    if (chunks.some(chunk => chunk?.['maps'] !== undefined)) this.#withMaps.add(choice);
  }

  /** Returns the calls of a tool that was priced per call; 0 if the answer shows none. */
  calls(tool: string): number {
    if (tool === 'google_maps') return this.#withMaps.size;
    if (tool !== 'web_search') return 0;
    let sum = 0;
    for (const queries of this.#queries.values()) sum += this.#isByPrompt ? Math.min(queries, 1) : queries;
    return sum;
  }
}

function listIn(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function objectIn(value: unknown): JsonObject | undefined {
  return typeof value === 'object' && value !== null ? (value as JsonObject) : undefined;
}
