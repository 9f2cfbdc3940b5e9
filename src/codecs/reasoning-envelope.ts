import { type Extra, type Opaque, type Part, Protocol } from '../gen/tollgate/v1/content_pb.ts';
import type { Json } from './codec.ts';
import { makeOpaque, makePart, reasoningTextContent, summaryTextContent } from './content.ts';
import { listIn, objectIn, parsedJson, textIn } from './json.ts';

/**
 * Encodes blobs of reasoning as one text, the envelope, for protocols that have only one string for a blob, without its provider and kind.
 * The envelope also contains the reasoning that the blobs sign, so that the signed text is sent back unchanged. Source: docs/interfaces/README.md
 * "Reasoning and signatures".
 */

const start = 'tgb1.';

/** The reasoning item that blobs belong to. */
export interface EnvelopedItem {
  readonly parts: readonly Part[];
  /** Members that only the item's protocol has. */
  readonly extra: Extra | undefined;
}

/** The content of an envelope. */
export interface EnvelopedReasoning {
  readonly blobs: Opaque[];
  readonly extra: Extra | undefined;
  /** The reasoning. Undefined in an envelope of an earlier version, which does not contain it: the parts are then outside of the envelope. */
  readonly parts: Part[] | undefined;
}

/** Returns blobs and the item that they belong to as one text. */
export function wrapReasoning(blobs: readonly Opaque[], { parts, extra }: EnvelopedItem): string {
  const entries = blobs.map(({ provider, model, kind, data }) => [provider, model, kind, data]);
  const reasoning = parts.flatMap(({ content }) =>
    content.case === 'summaryText' || content.case === 'reasoningText' ? [[content.case, content.value.text]] : [],
  );
  const members = extra === undefined ? {} : { extra: [extra.protocol, extra.json] };
  const fields = { blobs: entries, parts: reasoning, ...members };
  return start + Buffer.from(JSON.stringify(fields), 'utf8').toString('base64url');
}

/** Returns the content of an envelope; undefined if the text is not one. */
export function unwrapReasoning(text: string): EnvelopedReasoning | undefined {
  if (!text.startsWith(start)) return undefined;
  try {
    const fields = JSON.parse(Buffer.from(text.slice(start.length), 'base64url').toString('utf8')) as Json;
    const members = objectIn(fields);
    const blobs = listIn(members === undefined ? fields : members['blobs']).map(entry => {
      const [provider, model, kind, data] = listIn(entry).map(textIn);
      return makeOpaque(kind ?? '', data ?? '', provider, model);
    });
    const parts = members === undefined ? undefined : listIn(members['parts']).map(partIn);
    return { blobs, parts, extra: extraIn(listIn(members?.['extra'])) };
  } catch {
    // The text is not an envelope, but a blob of a provider, who will verify it.
    return undefined;
  }
}

function partIn(entry: Json): Part {
  const [kind, text = ''] = listIn(entry).map(textIn);
  return makePart(kind === 'summaryText' ? summaryTextContent(text) : reasoningTextContent(text));
}

function extraIn([named, json]: readonly Json[]): Extra | undefined {
  const protocol = Object.values(Protocol).find(each => each === named);
  // A client may have changed the envelope, so only an object is accepted as an extra.
  if (protocol === undefined || typeof json !== 'string' || objectIn(parsedJson(json)) === undefined) return undefined;
  return { $typeName: 'tollgate.v1.Extra', protocol, json };
}
