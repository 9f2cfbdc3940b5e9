/** The first segments, after `/v1`, of the paths that are also served without `/v1`. */
const publicRoots: ReadonlySet<string> = new Set([
  'account',
  'audio',
  'batches',
  'chat',
  'completions',
  'conversations',
  'embeddings',
  'files',
  'images',
  'messages',
  'models',
  'moderations',
  'rerank',
  'responses',
]);

/** Returns the canonical path of a request, with its query: `/health` becomes `/healthz`, and `/v1` is put before a public path that lacks it. Source: docs/interfaces/README.md "Paths". */
export function resolveAlias(target: string): string {
  const root = /^\/([a-z]+)(?=[/?]|$)/.exec(target)?.[1];
  if (root === undefined) return target;
  if (root === 'health') return target.replace(/^\/health(?=\?|$)/, '/healthz');
  return publicRoots.has(root) ? `/v1${target}` : target;
}
