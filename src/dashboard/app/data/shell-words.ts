import type { Viewer } from './viewer.ts';

/** Quotes a word for a POSIX shell if it needs it. */
export function shellWord(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/**
 * Returns a call of AdminService on the internal listener as a curl command. The token is an environment variable, because the page does not
 * know it. `request` is the call's message as JSON.
 */
export function operatorCurl({ internalUrl }: Viewer, method: string, request: object = {}): string {
  return [
    `curl ${shellWord(`${internalUrl}/tollgate.v1.AdminService/${method}`)} \\`,
    '  -H "Authorization: Bearer $TOLLGATE_OPERATOR_TOKEN" \\',
    "  -H 'Content-Type: application/json' \\",
    `  -d ${shellWord(JSON.stringify(request))}`,
  ].join('\n');
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
