import type { JsonObject } from '../codecs/codec.ts';
import { fetchBody } from './fetch-body.ts';
import type { DirectHttp } from './direct-http.ts';
import { outgoingBody } from './outgoing-json.ts';

/**
 * Counts the input tokens of a Chat body with a llama.cpp server: lets it apply the model's chat template, then tokenize the text. Source: its README, "POST /apply-template" and "POST /tokenize", b10434. Throws `UpstreamFailure`, `TypeError` or `SyntaxError` if the server returns no count; if the signal is aborted, its reason.
 */
export async function countByTemplate(direct: DirectHttp, body: JsonObject, signal: AbortSignal): Promise<number> {
  const { prompt } = (await post(direct, '/apply-template', body, signal)) as { readonly prompt?: unknown };
  if (typeof prompt !== 'string') throw new TypeError('the server returned no prompt');
  const text = { content: prompt, add_special: true, parse_special: true };
  const { tokens } = (await post(direct, '/tokenize', text, signal)) as { readonly tokens?: unknown };
  if (!Array.isArray(tokens)) throw new TypeError('the server returned no tokens');
  return tokens.length;
}

async function post(
  { target, codec, bytesMax }: DirectHttp,
  path: string,
  body: JsonObject,
  signal: AbortSignal,
): Promise<object> {
  const defaults = { accept: 'application/json', 'user-agent': 'tollgate' };
  const headers = target.headers(defaults, { 'content-type': 'application/json' });
  // Both paths are at the root of the server, not below `/v1`.
  const request = { keyUser: target, model: '', path: target.path(path).replace(`/v1${path}`, path), headers };
  const response = await fetchBody(target, { ...request, body: await outgoingBody(body), codec }, bytesMax, signal);
  const value: unknown = JSON.parse(response.toString('utf8'));
  return typeof value === 'object' && value !== null ? value : {};
}
