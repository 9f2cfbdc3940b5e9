/** The longest id of a tool call that the Responses interface accepts. */
export const callIdMax = 64;

/** Returns the id of a tool call in a form that the Responses interface accepts. Equal ids give equal results. `otherwise`: the id of a call to which the upstream gave none. */
export function callIdFor(callId: string, otherwise = 'call'): string {
  if (callId === '') return otherwise;
  if (callId.length <= callIdMax) return callId;
  return `${callId.slice(0, callIdMax - 9).toWellFormed()}_${hashText(callId)}`;
}

/** Returns the FNV-1a hash of a text, 32 bits as hexadecimal digits. Not safe against deliberate collisions. */
export function hashText(text: string): string {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, '0');
}
