import type { Viewer } from './viewer.ts';

/** Quotes a word for a POSIX shell if it needs it. */
export function shellWord(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** A call of AdminService as curl, on the internal listener. The token comes from the environment: the page does not know it. `request` is its message as JSON. */
export function operatorCurl({ internalUrl }: Viewer, method: string, request: object = {}): string {
  return [
    `curl ${shellWord(`${internalUrl}/tollgate.v1.AdminService/${method}`)} \\`,
    '  -H "Authorization: Bearer $TOLLGATE_OPERATOR_TOKEN" \\',
    "  -H 'Content-Type: application/json' \\",
    `  -d ${shellWord(JSON.stringify(request))}`,
  ].join('\n');
}

/** A call of the REST interface as curl. The key comes from the environment: the page does not know it. */
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
