/** The longest id of a call that the interface takes. */
export const callIdMax = 64;

/** Returns a call's id in a form that the interface accepts; equal ids give equal results. `otherwise` names a call that its upstream gave none. */
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
