import type { Json } from '../codecs/codec.ts';
import { objectIn, objectsIn, textIn } from '../codecs/json.ts';
import { errorFacts, readErrorBody } from '../codecs/upstream-error.ts';
import { fetchBody } from './fetch-body.ts';
import type { HttpTarget } from './http-target.ts';
import type { UpstreamProtocol } from './protocols.ts';

/** The most bytes of a list of models. No real list is that long. */
const bytesMax = 8 * 1024 ** 2;

/** Reads errors as all protocols do. */
const codec = {
  parseError: (status: number, body: string) => readErrorBody(body, value => errorFacts(value, status)),
};

/**
 * Returns a provider's names of its models. Throws `UpstreamFailure`, and `SyntaxError` if the answer is not JSON; if the signal is aborted, its reason.
 */
export async function listOwnModels(
  target: HttpTarget,
  { headers = {}, listPath }: Pick<UpstreamProtocol, 'headers' | 'listPath'>,
  signal: AbortSignal,
): Promise<string[]> {
  const request = {
    keyUser: {},
    model: '',
    path: target.path(listPath),
    headers: target.headers({ accept: 'application/json', 'user-agent': 'tollgate', ...headers }),
    body: null,
    codec,
  };
  const body = await fetchBody(target, request, bytesMax, signal);
  const list = objectIn(JSON.parse(body.toString('utf8')) as Json);
  // Gemini's entries have a `name` with the prefix `models/`; those of all other protocols have an `id`.
  const entries = objectsIn(list?.['data'] ?? list?.['models']);
  return entries.map(({ id, name }) => textIn(id) || textIn(name).replace(/^models\//, '')).filter(each => each !== '');
}
