/** First segments of the public paths, which are also found without the version before them. */
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

/** Returns the target of a request under the name that its route has: `/health` is `/healthz`, and public paths may lack their `/v1`. Source: docs/interfaces/README.md "Paths". */
export function resolveAlias(target: string): string {
  const root = /^\/([a-z]+)(?=[/?]|$)/.exec(target)?.[1];
  if (root === undefined) return target;
  if (root === 'health') return target.replace(/^\/health(?=\?|$)/, '/healthz');
  return publicRoots.has(root) ? `/v1${target}` : target;
}
