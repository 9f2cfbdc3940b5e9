import type { IncomingMessage } from 'node:http';

/**
 * Reads the paths of Gemini's interface. The model is in the path and may contain slashes and colons, so each path is rewritten to the pattern that routes,
 * log and metrics know. Source: docs/interfaces/gemini.md "Paths".
 */

/** The paths as routes: a colon is doubled because the router reads a single one as a parameter. */
export const geminiRoutes = {
  generateContent: '/v1beta/models/{model}::generateContent',
  streamGenerateContent: '/v1beta/models/{model}::streamGenerateContent',
  countTokens: '/v1beta/models/{model}::countTokens',
  embedContent: '/v1beta/models/{model}::embedContent',
  batchEmbedContents: '/v1beta/models/{model}::batchEmbedContents',
  list: '/v1beta/models',
  model: '/v1beta/models/{model}',
} as const;

/** Returns the pattern of a route as log and metrics show it. */
export function shownPattern(route: string): string {
  return route.replace('::', ':');
}

/** The parts of a path of the interface. */
export interface GeminiTarget {
  /** The model as the path names it; undefined for the list. */
  readonly model: string | undefined;
  /** The method after the colon; undefined for lists and single models. */
  readonly method: string | undefined;
  /** The path as the client sent it, without its query. */
  readonly path: string;
}

const targets = new WeakMap<IncomingMessage, GeminiTarget>();
const root =
  /^\/v1(?:alpha|beta1?)?\/(?:projects\/[^/]+\/locations\/[^/]+\/)?(?:publishers\/([^/]+)\/)?models(?:\/(.+))?$/;
/** A method of a model that is named without `models/`: the AI SDK leaves it out before ids with a slash. */
const bareMethod = /^\/v1(?:alpha|beta1?)\/(?!(?:projects|publishers|models)\/)([^:]+(?::[^:/]+)*:\w+)$/;
const googlePath = /^\/(?:v1alpha|v1beta1?|v1\/projects|v1\/publishers)(?:[/?]|$)/;
const methodRoutes: Readonly<Record<string, string>> = {
  generateContent: geminiRoutes.generateContent,
  streamGenerateContent: geminiRoutes.streamGenerateContent,
  countTokens: geminiRoutes.countTokens,
  embedContent: geminiRoutes.embedContent,
  batchEmbedContents: geminiRoutes.batchEmbedContents,
};

/** The methods of models, in the order of the documents. */
export const geminiMethods: readonly string[] = Object.keys(methodRoutes);

/** Returns the route of a request of this interface, with its query; undefined for any other. Remembers what the path says. */
export function rewriteGemini(request: IncomingMessage): string | undefined {
  const { url = '', method } = request;
  const at = url.indexOf('?');
  const path = at === -1 ? url : url.slice(0, at);
  const found = root.exec(path);
  const bare = found === null ? bareMethod.exec(path)?.[1] : undefined;
  if (found === null && bare === undefined) return undefined;
  const [, publisher, rest = bare] = found ?? [];
  const colon = rest === undefined ? -1 : rest.lastIndexOf(':');
  const name = method === 'POST' && colon !== -1 ? rest?.slice(colon + 1) : undefined;
  // `/v1/models` is OpenAI's, unless a Google client asks or a method is called.
  if (path.startsWith('/v1/models') && name === undefined && !isGoogleClient(request)) return undefined;
  const model = decoded(name === undefined ? rest : rest?.slice(0, colon));
  const route = name === undefined ? (rest === undefined ? geminiRoutes.list : geminiRoutes.model) : methodRoutes[name];
  if (route === undefined || model === '') return undefined;
  targets.set(request, { model: readName(model, publisher), method: name, path });
  return shownPattern(route) + (at === -1 ? '' : url.slice(at));
}

/** Returns what the path of a request says; undefined if it is not one of this interface. */
export function geminiTarget(request: IncomingMessage): GeminiTarget | undefined {
  return targets.get(request);
}

/** Returns whether errors of a request have the form of Google's services. */
export function isGoogleRequest(request: IncomingMessage): boolean {
  if (targets.has(request)) return true;
  const { url = '' } = request;
  return (
    googlePath.test(url) ||
    (url.startsWith('/v1/models/') && /:[a-zA-Z]+(?:\?|$)/.test(url) && request.method === 'POST')
  );
}

function isGoogleClient({ headers }: IncomingMessage): boolean {
  return headers['x-goog-api-key'] !== undefined || headers['x-goog-api-client'] !== undefined;
}

function decoded(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns the name for the core, which resolves the publishers of Vertex mode. */
function readName(model: string | undefined, publisher: string | undefined): string | undefined {
  const id = model?.startsWith('models/') === true ? model.slice('models/'.length) : model;
  return id === undefined || publisher === undefined ? id : `publishers/${publisher}/models/${id}`;
}
