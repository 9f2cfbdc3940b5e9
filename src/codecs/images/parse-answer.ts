import { UpstreamFailure } from '../../generation/upstream.ts';
import { decodeBase64, parseDataUrl } from '../../generation/media.ts';
import type { Json, JsonObject } from '../codec.ts';
import { listIn, objectIn, textIn, unknownMembers } from '../json.ts';
import { members } from '../schema.ts';

/** An image of an upstream's answer: its bytes, or its address. */
export interface ParsedImage {
  readonly source:
    | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
    | { readonly kind: 'url'; readonly url: string };
  /** '' if the upstream gave none. */
  readonly revisedPrompt: string;
  /** Unknown members, as a JSON object; '' for none. */
  readonly extraJson: string;
}

/** An upstream's answer. */
export interface ParsedImages {
  readonly images: readonly ParsedImage[];
  /** Unknown members, as a JSON object; '' for none. */
  readonly extraJson: string;
}

const answerMembers = members('created', 'data');
const imageMembers = members('b64_json', 'url', 'revised_prompt');

/** Parses an answer of the Images interface. Throws `UpstreamFailure` `malformed` if it is not valid or has no image. */
export function parseAnswer(text: string): ParsedImages {
  const body = parseObject(text);
  const images = listIn(body['data']).map(parseImage);
  if (images.length === 0) throw malformed('no images');
  return { images, extraJson: collectExtra(body, answerMembers) };
}

function parseObject(text: string): JsonObject {
  try {
    const body = objectIn(JSON.parse(text) as Json);
    if (body !== undefined) return body;
  } catch (cause) {
    throw malformed('no JSON', cause);
  }
  throw malformed('no object');
}

function parseImage(entry: Json): ParsedImage {
  const image = objectIn(entry);
  if (image === undefined) throw malformed('an image that is not an object');
  const fields = { revisedPrompt: textIn(image['revised_prompt']), extraJson: collectExtra(image, imageMembers) };
  const [base64, url] = [textIn(image['b64_json']), textIn(image['url'])];
  const inline = base64 === '' ? parseDataUrl(url)?.base64 : (parseDataUrl(base64)?.base64 ?? base64);
  if (inline === undefined) {
    if (url === '') throw malformed('an image without bytes or address');
    return { source: { kind: 'url', url }, ...fields };
  }
  const bytes = decodeBase64(inline);
  if (bytes === undefined) throw malformed('an image that is not base64');
  return { source: { kind: 'bytes', bytes }, ...fields };
}

function collectExtra(value: JsonObject, known: ReadonlySet<string>): string {
  const unknown = unknownMembers(value, known);
  return unknown === undefined ? '' : JSON.stringify(unknown);
}

function malformed(what: string, cause?: unknown): UpstreamFailure {
  return new UpstreamFailure('malformed', { cause: cause ?? new Error(`the answer has ${what}`) });
}
