import type { Json } from '../codecs/codec.ts';
import { objectIn, objectsIn, textIn } from '../codecs/json.ts';
import { errorFacts, readErrorBody } from '../codecs/upstream-error.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { fetchBody } from './fetch-body.ts';
import type { HttpTarget } from './http-target.ts';
import type { UpstreamProtocol } from './protocols.ts';

/** The prefix of names in the list of Vertex AI, and of Gemini. */
const namePrefix = /^(?:publishers\/google\/)?models\//;

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
  if (listPath === undefined) throw new UpstreamFailure('malformed', { cause: new Error('it has no list of models') });
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
  // Gemini's entries have a `name` with a prefix; those of all other protocols have an `id`.
  const entries = objectsIn(list?.['data'] ?? list?.['models'] ?? list?.['publisherModels']);
  return entries.map(({ id, name }) => textIn(id) || textIn(name).replace(namePrefix, '')).filter(each => each !== '');
}
