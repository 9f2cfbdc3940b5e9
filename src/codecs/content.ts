import {
  type Annotation,
  type Extra,
  type ImagePart,
  type Item,
  ItemStatus,
  type MediaSource,
  type Message,
  type Opaque,
  type Part,
  Phase,
  type Protocol,
  type Reasoning,
  type Role,
  type ToolCall,
  ToolKind,
  type ToolResult,
  type UrlCitation,
} from '../gen/tollgate/v1/content_pb.ts';
import {
  Delivery,
  Endpoint,
  type GenerateRequest,
  type Sampling,
  ServiceTier,
  Truncation,
} from '../gen/tollgate/v1/request_pb.ts';

/**
 * Cheap constructors of the contract's messages. They write object literals instead of calling `create`, which costs ten times as much and
 * would run for every message of every request.
 */

type Fields<T> = Partial<Omit<T, '$typeName'>>;

/** Makes an item of a turn; turn 0: it shares its turn with no other item. */
export function makeItem(content: Item['content'], turn: number, extra?: Extra): Item {
  const item: Item = { $typeName: 'tollgate.v1.Item', id: '', status: ItemStatus.UNSPECIFIED, turn, content };
  if (extra !== undefined) item.extra = extra;
  return item;
}

/** The content of a message item. */
export function messageContent(role: Role, parts: Part[], name = ''): Item['content'] {
  const value: Message = { $typeName: 'tollgate.v1.Message', role, name, parts, phase: Phase.UNSPECIFIED };
  return { case: 'message', value };
}

/** The content of a tool call item; the fields that are left out are empty. */
export function toolCallContent(fields: Fields<ToolCall>): Item['content'] {
  const empty = { callId: '', name: '', kind: ToolKind.FUNCTION, arguments: '' };
  return { case: 'toolCall', value: { $typeName: 'tollgate.v1.ToolCall', ...empty, ...fields } };
}

/** The content of a tool result item; the fields that are left out are empty. */
export function toolResultContent(fields: Fields<ToolResult>): Item['content'] {
  const empty = { callId: '', name: '', kind: ToolKind.FUNCTION, parts: [], plain: false, isError: false };
  return { case: 'toolResult', value: { $typeName: 'tollgate.v1.ToolResult', ...empty, ...fields } };
}

/** The content of a reasoning item; the fields that are left out are empty. */
export function reasoningContent(fields: Fields<Reasoning>): Item['content'] {
  const empty = { parts: [], opaque: [], redacted: false };
  return { case: 'reasoning', value: { $typeName: 'tollgate.v1.Reasoning', ...empty, ...fields } };
}

/** A part with the given content. */
export function makePart(content: Part['content'], extra?: Extra): Part {
  const part: Part = { $typeName: 'tollgate.v1.Part', content };
  if (extra !== undefined) part.extra = extra;
  return part;
}

/** The content of a text part. */
export function textContent(text: string): Part['content'] {
  return { case: 'text', value: { $typeName: 'tollgate.v1.TextPart', text, annotations: [], logprobs: [] } };
}

/** The content of a refusal part. */
export function refusalContent(text: string): Part['content'] {
  return { case: 'refusal', value: { $typeName: 'tollgate.v1.RefusalPart', text } };
}

/** The content of raw reasoning. */
export function reasoningTextContent(text: string): Part['content'] {
  return { case: 'reasoningText', value: { $typeName: 'tollgate.v1.ReasoningTextPart', text } };
}

/** The content of a reasoning summary. */
export function summaryTextContent(text: string): Part['content'] {
  return { case: 'summaryText', value: { $typeName: 'tollgate.v1.SummaryTextPart', text } };
}

/** The content of a reference to a tool that a tool search found. */
export function toolReferenceContent(name: string): Part['content'] {
  return { case: 'toolReference', value: { $typeName: 'tollgate.v1.ToolReferencePart', name } };
}

/** The content of an image; `detail` '' means not given. */
export function imageContent(source: MediaSource, detail: ImagePart['detail'] = ''): Part['content'] {
  return { case: 'image', value: { $typeName: 'tollgate.v1.ImagePart', source, detail } };
}

/** Where the bytes of an image, sound, video or file come from; `mediaType` '' means unknown. */
export function mediaSource(source: MediaSource['source'], mediaType = ''): MediaSource {
  return { $typeName: 'tollgate.v1.MediaSource', source, mediaType };
}

/** Opaque data of a provider; `provider` and `model` are '' if unknown. */
export function makeOpaque(kind: string, data: string, provider = '', model = ''): Opaque {
  return { $typeName: 'tollgate.v1.Opaque', provider, model, kind, data };
}

/** JSON members of one protocol that the protobuf messages have no field for; `json` is the text of one JSON object. */
export function toExtra(protocol: Protocol, json: string): Extra {
  return { $typeName: 'tollgate.v1.Extra', protocol, json };
}

/** A citation of a web page. */
export function urlCitation(fields: Fields<UrlCitation>): UrlCitation {
  return { $typeName: 'tollgate.v1.UrlCitation', url: '', title: '', startIndex: 0, endIndex: 0, ...fields };
}

/** A citation of a web page as an annotation. */
export function urlAnnotation(fields: Fields<UrlCitation>): Annotation {
  const annotation = { case: 'urlCitation', value: urlCitation(fields) } as const;
  return { $typeName: 'tollgate.v1.Annotation', annotation };
}

/** A request with the given fields; the others empty. */
export function makeRequest(fields: Fields<GenerateRequest>): GenerateRequest {
  return {
    $typeName: 'tollgate.v1.GenerateRequest',
    model: '',
    endpoint: Endpoint.UNSPECIFIED,
    delivery: Delivery.UNSPECIFIED,
    items: [],
    tools: [],
    stop: [],
    serviceTier: ServiceTier.UNSPECIFIED,
    metadata: {},
    include: [],
    truncation: Truncation.UNSPECIFIED,
    strict: false,
    ...fields,
  };
}

/** Sampling with the given fields; the others unset. */
export function makeSampling(fields: Fields<Sampling>): Sampling {
  return { $typeName: 'tollgate.v1.Sampling', logitBias: {}, ...fields };
}

const dataUrlHead = /^data:([a-z0-9.+-]+\/[a-z0-9.+-]+)(?:;[^,]*)?;base64,/i;

/** Parses a base64 data URL; the media type is in lower case. Returns undefined if it is not one. */
export function parseDataUrl(url: string): { mediaType: string; base64: string } | undefined {
  const head = dataUrlHead.exec(url.slice(0, 256));
  if (head?.[1] === undefined) return undefined;
  return { mediaType: head[1].toLowerCase(), base64: url.slice(head[0].length) };
}

const base64Pattern = /^[A-Za-z0-9+/]+={0,2}$/;
/** Longer texts are decoded to test them: native code does that six times as fast as a pattern. */
const shortBase64 = 16_384;
/** The number of characters that are decoded at a time; a multiple of four. */
const sliceLength = 65_536;

/** Returns whether a text is decodable base64 of the standard alphabet (padding may be missing). */
export function isBase64(text: string): boolean {
  const digits = text.endsWith('==') ? text.length - 2 : text.endsWith('=') ? text.length - 1 : text.length;
  const hasWholeGroups = digits % 4 !== 1 && (digits === text.length || text.length % 4 === 0);
  return hasWholeGroups && (text.length <= shortBase64 ? base64Pattern.test(text) : isLongBase64(text, digits));
}

/** `digits` is the length without padding. */
function isLongBase64(text: string, digits: number): boolean {
  const bytes = Buffer.allocUnsafe((sliceLength / 4) * 3);
  for (let at = 0; at < digits; at += sliceLength) {
    const slice = text.slice(at, Math.min(at + sliceLength, digits));
    // Node.js accepts both base64 alphabets, skips characters that are in neither, and truncates characters beyond ASCII.
    if (slice.includes('-') || slice.includes('_') || Buffer.byteLength(slice) !== slice.length) return false;
    if (bytes.write(slice, 'base64') !== Math.floor((slice.length * 3) / 4)) return false;
  }
  return true;
}
