import type { Ranked, Reranked } from '../../generation/rerank/rerank-upstream.ts';
import type { Json } from '../codec.ts';
import { countIn, objectIn } from '../json.ts';
import { malformedAnswer, parseAnswerJson } from '../vector-answer.ts';

/**
 * Parses an answer, with usage as Cohere (`meta.billed_units`), Jina, vLLM or another Tollgate reports it; Voyage calls the results `data`. Throws `UpstreamFailure`
 * `malformed` if it is not valid.
 */
export function parseRerankAnswer(text: string): Omit<Reranked, 'dropped'> {
  const body = objectIn(parseAnswerJson(text));
  const results = body?.['results'] ?? body?.['data'];
  if (!Array.isArray(results)) throw malformedAnswer('no list of results');
  const usage = objectIn(body?.['usage']);
  const meta = objectIn(body?.['meta']);
  const billed = objectIn(meta?.['billed_units']);
  const tokens = objectIn(meta?.['tokens']);
  return {
    results: results.map(parseResult),
    inputTokens:
      countIn(usage?.['total_tokens']) ?? countIn(usage?.['prompt_tokens']) ?? countIn(tokens?.['input_tokens']),
    searchUnits: countIn(usage?.['search_units']) ?? countIn(billed?.['search_units']),
  };
}

function parseResult(entry: Json): Ranked {
  const result = objectIn(entry);
  const index = result?.['index'];
  const relevanceScore = result?.['relevance_score'];
  if (typeof index !== 'number' || typeof relevanceScore !== 'number') {
    throw malformedAnswer('a result without index and relevance_score');
  }
  return { index, relevanceScore };
}
