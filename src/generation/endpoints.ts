import { Endpoint } from '../gen/tollgate/v1/request_pb.ts';
import type { PieceKind } from './price.ts';

/** The endpoints and the public paths that a model's `endpoints` lists them by. Source: `service.md`. */
const rows: readonly (readonly [Endpoint, string])[] = [
  [Endpoint.CHAT_COMPLETIONS, '/v1/chat/completions'],
  [Endpoint.RESPONSES, '/v1/responses'],
  [Endpoint.MESSAGES, '/v1/messages'],
  [Endpoint.IMAGE_GENERATIONS, '/v1/images/generations'],
  [Endpoint.IMAGE_EDITS, '/v1/images/edits'],
  [Endpoint.EMBEDDINGS, '/v1/embeddings'],
  [Endpoint.RERANK, '/v1/rerank'],
  [Endpoint.COMPLETIONS, '/v1/completions'],
];

const paths: ReadonlyMap<Endpoint, string> = new Map(rows);
const endpoints: ReadonlyMap<string, Endpoint> = new Map(rows.map(([endpoint, path]) => [path, endpoint]));

/** The path of an endpoint; '' for the unspecified one and for one that only a newer peer knows. */
export function pathOf(endpoint: Endpoint): string {
  return paths.get(endpoint) ?? '';
}

/** The endpoint of a path; undefined where no model can list it. */
export function endpointOf(path: string): Endpoint | undefined {
  return endpoints.get(path);
}

/** Whether the endpoint answers with pictures. */
export function isImageEndpoint(endpoint: Endpoint): boolean {
  return endpoint === Endpoint.IMAGE_GENERATIONS || endpoint === Endpoint.IMAGE_EDITS;
}

/** Returns what the priced pieces of a request on a path are: searches of rerank requests, pictures elsewhere. */
export function namePiece(path: string): PieceKind {
  return path === pathOf(Endpoint.RERANK) ? 'search' : 'image';
}

const textEndpoints: ReadonlySet<Endpoint> = new Set([
  Endpoint.CHAT_COMPLETIONS,
  Endpoint.RESPONSES,
  Endpoint.MESSAGES,
  Endpoint.COMPLETIONS,
]);

/** Whether the endpoint answers with text. */
export function isTextEndpoint(endpoint: Endpoint): boolean {
  return textEndpoints.has(endpoint);
}
