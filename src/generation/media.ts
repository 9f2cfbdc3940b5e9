/** Base64 and its media type, as in a data URL. */
export interface DataUrl {
  /** "image/png"; empty if the URL names none. */
  readonly mediaType: string;
  /** Standard alphabet, unchanged. */
  readonly base64: string;
}

const head = /^data:([^;,]*)(?:;[^;,]*)*;base64,/i;

/** Reads a base64 data URL; undefined if it is something else. The data itself is not checked. */
export function parseDataUrl(url: string): DataUrl | undefined {
  // The head is short: the pattern never runs over megabytes.
  const found = head.exec(url.slice(0, 256));
  return found === null ? undefined : { mediaType: found[1] ?? '', base64: url.slice(found[0].length) };
}

/**
 * Decodes base64 of the standard or the URL alphabet, with or without line ends and padding; undefined if it is not
 * base64.
 */
export function decodeBase64(text: string): Buffer | undefined {
  // Most texts have no line ends: looking for them would take longer than decoding.
  return decodeCompact(text) ?? (/\s/.test(text) ? decodeCompact(text.replace(/\s+/g, '')) : undefined);
}

function decodeCompact(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  const unpadded = text.length - padding;
  // Buffer skips invalid characters, which makes the decoded length too short.
  return bytes.length === Math.floor((unpadded * 3) / 4) && unpadded % 4 !== 1 ? bytes : undefined;
}
