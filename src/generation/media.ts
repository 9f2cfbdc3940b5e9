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
  const compact = /\s/.test(text) ? text.replace(/\s+/g, '') : text;
  const bytes = Buffer.from(compact, 'base64');
  // Buffer skips invalid characters, which makes the decoded length too short.
  const unpadded = compact.replace(/={1,2}$/, '').length;
  return bytes.length === Math.floor((unpadded * 3) / 4) && unpadded % 4 !== 1 ? bytes : undefined;
}
