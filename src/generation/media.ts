/** The content of a data URL. */
export interface DataUrl {
  /** The media type, for example "image/png"; '' if the URL has none. */
  readonly mediaType: string;
  /** The data, unchanged. */
  readonly base64: string;
}

const head = /^data:([^;,]*)(?:;[^;,]*)*;base64,/i;

/** Reads a base64 data URL; undefined if the text is something else. The data is not checked. */
export function parseDataUrl(url: string): DataUrl | undefined {
  // Only the beginning is matched, so that the pattern never runs over megabytes.
  const found = head.exec(url.slice(0, 256));
  return found === null ? undefined : { mediaType: found[1] ?? '', base64: url.slice(found[0].length) };
}

/**
 * Decodes base64 in the standard or the URL alphabet, with or without line ends and padding; undefined if the text is not base64.
 */
export function decodeBase64(text: string): Buffer | undefined {
  // Line ends are looked for only if decoding fails, because most texts have none, and the search takes longer than decoding.
  return decodeCompact(text) ?? (/\s/.test(text) ? decodeCompact(text.replace(/\s+/g, '')) : undefined);
}

function decodeCompact(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  const unpadded = text.length - padding;
  // Buffer skips invalid characters, so the decoded length is then too short.
  return bytes.length === Math.floor((unpadded * 3) / 4) && unpadded % 4 !== 1 ? bytes : undefined;
}
