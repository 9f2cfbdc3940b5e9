import { Endpoint } from '../gen/tollgate/v1/request_pb.ts';
import type { PieceKind } from './price.ts';

/** The public paths of endpoints, as in a model's `endpoints`. TypeScript requires an entry for every endpoint. Source: docs/interfaces/README.md "Paths". */
const listed = {
  [Endpoint.CHAT_COMPLETIONS]: '/v1/chat/completions',
  [Endpoint.RESPONSES]: '/v1/responses',
  [Endpoint.MESSAGES]: '/v1/messages',
  [Endpoint.IMAGE_GENERATIONS]: '/v1/images/generations',
  [Endpoint.IMAGE_EDITS]: '/v1/images/edits',
  [Endpoint.EMBEDDINGS]: '/v1/embeddings',
  [Endpoint.RERANK]: '/v1/rerank',
  [Endpoint.COMPLETIONS]: '/v1/completions',
  [Endpoint.GEMINI]: '/v1beta/models/{model}:generateContent',
  [Endpoint.GEMINI_EMBEDDINGS]: '/v1beta/models/{model}:embedContent',
} satisfies Readonly<Record<(typeof Endpoint)[Exclude<keyof typeof Endpoint, 'UNSPECIFIED'>], string>>;

const paths: ReadonlyMap<Endpoint, string> = new Map(
  Object.entries(listed).map(([endpoint, path]) => [Number(endpoint) as Endpoint, path]),
);
const endpoints: ReadonlyMap<string, Endpoint> = new Map(paths.entries().map(([endpoint, path]) => [path, endpoint]));

/** Returns the path of an endpoint; '' for the unspecified endpoint, and for one that only a newer gateway knows. */
export function endpointPath(endpoint: Endpoint): string {
  return paths.get(endpoint) ?? '';
}

/** Returns the endpoint of a path; undefined if no model can list it. */
export function findEndpoint(path: string): Endpoint | undefined {
  return endpoints.get(path);
}

/** Returns whether the endpoint answers with images. */
export function isImageEndpoint(endpoint: Endpoint): boolean {
  return endpoint === Endpoint.IMAGE_GENERATIONS || endpoint === Endpoint.IMAGE_EDITS;
}

/** Returns the kind of piece by which requests on a path are priced: searches for rerank, images on all other paths. */
export function namePiece(path: string): PieceKind {
  return path === endpointPath(Endpoint.RERANK) ? 'search' : 'image';
}

const textEndpoints: ReadonlySet<Endpoint> = new Set([
  Endpoint.CHAT_COMPLETIONS,
  Endpoint.RESPONSES,
  Endpoint.MESSAGES,
  Endpoint.COMPLETIONS,
  Endpoint.GEMINI,
]);

/** Returns whether the endpoint answers with text. */
export function isTextEndpoint(endpoint: Endpoint): boolean {
  return textEndpoints.has(endpoint);
}
