import type { Viewer } from './viewer.ts';

/** Quotes a word for a POSIX shell if it needs it. */
export function shellWord(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Returns a REST call as a curl command. The key is an environment variable, because the page does not know it. */
export function curlCommand(
  { publicUrl, role }: Viewer,
  path: string,
  body?: { readonly method: string; readonly json: string },
): string {
  const key = role === 'holder' ? '$TOLLGATE_API_KEY' : '$TOLLGATE_MANAGEMENT_KEY';
  const call = body === undefined ? '' : `-X ${body.method} `;
  const lines = [`curl ${call}${shellWord(publicUrl + path)} \\`, `  -H "Authorization: Bearer ${key}"`];
  if (body === undefined) return lines.join('\n');
  return `${lines.join('\n')} \\\n  -H 'Content-Type: application/json' \\\n  -d ${shellWord(body.json)}`;
}
