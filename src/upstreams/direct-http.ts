import type { JsonObject, UpstreamCodec } from '../codecs/codec.ts';
import type { DirectCall } from '../generation/direct-call.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { fetchBody } from './fetch-body.ts';
import type { HttpTarget } from './http-target.ts';
import { outgoingBody } from './outgoing-json.ts';
import { checkDirect, type Passthrough } from './passthrough.ts';

/** The parts that all calls of direct endpoints to one provider share. */
export interface DirectHttp {
  readonly target: HttpTarget;
  /** Reads the provider's errors. */
  readonly codec: Pick<UpstreamCodec, 'parseError'>;
  /** The most bytes of an answer. */
  readonly bytesMax: number;
  /** Which of the client's fields the provider gets. */
  readonly passthrough: Passthrough;
}

/** One request over HTTP. */
export interface DirectPost {
  /** The path below the base URL. */
  readonly path: string;
  readonly body: JsonObject;
}

/**
 * Posts a request, and returns the text of its answer. Throws `UpstreamFailure` with a message for clients; if the signal is aborted, its reason.
 */
export async function postDirectly(
  { target, codec, bytesMax, passthrough }: DirectHttp,
  { hold, model, signal, watch }: Omit<DirectCall<unknown>, 'request'>,
  { path, body }: DirectPost,
): Promise<string> {
  signal.throwIfAborted();
  const defaults = { accept: 'application/json', 'user-agent': 'tollgate' };
  const headers = target.headers(defaults, { 'content-type': 'application/json' });
  const outgoing = {
    keyUser: hold,
    model,
    path: target.path(path),
    headers,
    body: await outgoingBody(checkDirect(passthrough, body)),
  };
  const answer = await fetchBody(target, { ...outgoing, codec, watch }, bytesMax, signal);
  return answer.toString('utf8');
}

/** Runs `attempt`. If it throws an `UpstreamFailure`, the message is cleaned for clients. */
export async function withCleanFailures<Answer>(target: HttpTarget, attempt: () => Promise<Answer>): Promise<Answer> {
  try {
    return await attempt();
  } catch (thrown) {
    throw thrown instanceof UpstreamFailure ? target.clean(thrown) : thrown;
  }
}
