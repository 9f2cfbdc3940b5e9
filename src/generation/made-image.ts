import { Protocol, type ServerTool } from '../gen/tollgate/v1/content_pb.ts';
import { sseComment } from '../lib/sse.ts';
import { ExtensionScope, type GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';

/** An image that a model, or a tool of its provider, made. */
export interface MadeImage {
  /** "image/png". */
  readonly mediaType: string;
  /** '' if the provider gave an address instead. */
  readonly base64: string;
  /** The image's address, or the image as a data URL. */
  readonly url: string;
}

type Members = Readonly<Record<string, unknown>>;

/**
 * Returns the image in an item of a provider's tool, for clients of other protocols than its own; undefined if it has none. Forms: `image_generation_call` (OpenAI), `inlineData` (Gemini), an entry of `message.images`
 * (OpenRouter).
 */
export function readMadeImage({ protocol, json }: Pick<ServerTool, 'protocol' | 'json'>): MadeImage | undefined {
  if (!imageMark.test(json)) return undefined;
  const item = JSON.parse(json) as Members;
  switch (protocol) {
    case Protocol.RESPONSES:
      if (item['type'] !== 'image_generation_call' || !isFilled(item['result'])) return undefined;
      return fromBase64(item['result'], `image/${isFilled(item['output_format']) ? item['output_format'] : 'png'}`);
    case Protocol.GEMINI: {
      const { mimeType, data } = membersIn(item['inlineData']);
      return isFilled(data) && isFilled(mimeType) && mimeType.startsWith('image/')
        ? fromBase64(data, mimeType)
        : undefined;
    }
    case Protocol.CHAT: {
      const { url } = membersIn(item['image_url']);
      return isFilled(url) ? fromUrl(url) : undefined;
    }
    default:
      return undefined;
  }
}

/** Returns the image that an event completes, if it is of another protocol than `own`; undefined if it is not, or completes none. */
export function findForeignImage({ event }: GenerationEvent, own: Protocol): MadeImage | undefined {
  const content = event.case === 'itemOpened' ? event.value.content?.content : undefined;
  const isWhole = event.case === 'extension' && event.value.scope === ExtensionScope.ITEM;
  const item = content?.case === 'serverTool' ? content.value : isWhole ? event.value.extra : undefined;
  return item === undefined || item.protocol === own ? undefined : readMadeImage(item);
}

/** The warning for images that a client's protocol has no place for. */
const lostImages = 'dropped=images';

/** Returns the warnings about what a client of a protocol without images lost. */
export function warnOfImages(events: readonly GenerationEvent[], own: Protocol): readonly string[] {
  return events.some(event => findForeignImage(event, own) !== undefined) ? [lostImages] : [];
}

/** Returns the same warning as a comment in a stream, whose headers have been sent; '' if an event completes no such image. */
export function lostImageComment(event: GenerationEvent, own: Protocol): string {
  return findForeignImage(event, own) === undefined ? '' : sseComment(`x-tollgate-warnings: ${lostImages}`);
}

/** Matches a member that every item with an image has. */
const imageMark = /"(?:inlineData|image_url|image_generation_call)"/;

function isFilled(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function membersIn(value: unknown): Members {
  return typeof value === 'object' && value !== null ? (value as Members) : {};
}

function fromBase64(base64: string, mediaType: string): MadeImage {
  return { mediaType, base64, url: `data:${mediaType};base64,${base64}` };
}

function fromUrl(url: string): MadeImage {
  const [, mediaType, base64] = /^data:([^;,]+);base64,(.*)$/s.exec(url) ?? [];
  return { mediaType: mediaType ?? 'image/png', base64: base64 ?? '', url };
}
