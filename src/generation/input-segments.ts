import { type CacheHint, type Item, type MediaSource, type Part, Role } from '../gen/tollgate/v1/content_pb.ts';
import type { GenerateRequest, Tool } from '../gen/tollgate/v1/request_pb.ts';

/** One piece of a model's input, in the order in which an upstream reads it: tools, output format, instructions, items. */
export interface InputSegment {
  /** Its kind and role ("user", "tool", "call", …): equal texts of different kinds differ in a cached prefix. */
  readonly kind: string;
  readonly text: string;
  /** Tokens besides those of `text`, as the simulator counts them: what frames the segment, or stands for an image or file. */
  readonly flatTokens: number;
  /** The most tokens that any known upstream counts for the same. */
  readonly flatTokensMax: number;
  /** True if only the upstream learns how many tokens it has: a file that the upstream fetches, or audio. */
  readonly isSizeUnknown: boolean;
  /** A cached prefix may end after it. */
  readonly cache: CacheHint | undefined;
}

interface SegmentFacts {
  readonly flat?: number;
  readonly flatMax?: number;
  readonly isSizeUnknown?: boolean;
  readonly cache?: CacheHint | undefined;
}

function segment(kind: string, text: string, facts: SegmentFacts = {}): InputSegment {
  const { flat = 0, flatMax = 2 * flat, isSizeUnknown = false, cache } = facts;
  return { kind, text, flatTokens: flat, flatTokensMax: flatMax, isSizeUnknown, cache };
}

/** Tokens that frame a message, by OpenAI's published count: 3 and one for the role. */
const messageTokens = 4;
const callTokens = 6;
const toolTokens = 8;
const lowDetailImageTokens = 85;
const imageTokens = 765;
/** More than Anthropic, OpenAI or Gemini count for any image, because they scale down larger ones first. */
const imageTokensMax = 2_048;

const roleNames: Readonly<Record<number, string>> = {
  [Role.SYSTEM]: 'system',
  [Role.DEVELOPER]: 'developer',
  [Role.USER]: 'user',
  [Role.ASSISTANT]: 'assistant',
};

function sourceText(source: MediaSource | undefined): string {
  return source?.source.case === 'text' ? source.source.value : '';
}

/**
 * Returns a text that identifies the bytes in a cached prefix: their length, beginning and end. A hash of all bytes (up to 64 MiB) would take longer than the answer.
 */
function sourceKey(source: MediaSource | undefined): string {
  const value = source?.source.value ?? '';
  return `${value.length}:${value.slice(0, 256)}:${value.slice(-256)}`;
}

/** Estimates a file's tokens from the length of its base64 text. Four characters of base64 (3 bytes of the file) count as at most one token, which is enough even for compressed text. */
function fileFlat(source: MediaSource | undefined): SegmentFacts {
  if (source?.source.case === 'text') return {};
  const length = source?.source.case === 'base64' ? source.source.value.length : 0;
  const isSizeUnknown = source?.source.case !== 'base64';
  return { flat: 64 + Math.ceil(length / 64), flatMax: 2_048 + Math.ceil(length / 4), isSizeUnknown };
}

function partSegment(kind: string, part: Part): InputSegment {
  const { content, cache } = part;
  switch (content.case) {
    case 'text':
    case 'refusal':
    case 'reasoningText':
    case 'summaryText':
      return segment(kind, content.value.text, { cache });
    case 'image': {
      const flat = content.value.detail === 'low' ? lowDetailImageTokens : imageTokens;
      return segment(`${kind} image ${sourceKey(content.value.source)}`, '', { flat, flatMax: imageTokensMax, cache });
    }
    case 'file': {
      const { source, filename, title, context } = content.value;
      const text = [filename, title, context, sourceText(source)].filter(each => each !== '').join('\n');
      return segment(`${kind} file ${sourceKey(source)}`, text, { ...fileFlat(source), cache });
    }
    case 'audio':
    case 'video':
      return segment(`${kind} ${content.case} ${sourceKey(content.value.source)}`, '', {
        ...fileFlat(content.value.source),
        isSizeUnknown: true,
        cache,
      });
    case 'searchResult':
    case 'unknown':
      return segment(kind, content.value.json, { cache });
    case 'toolReference':
      return segment(kind, content.value.name, { cache });
    case 'tokens':
      return segment(kind, '', { flat: content.value.ids.length, flatMax: content.value.ids.length, cache });
    case undefined:
      return segment(kind, '', { cache });
  }
}

/** Adds a segment for unknown members of the client's protocol. The model may read them, so they are input: about one token for four characters, at most one for two. */
function addExtra(segments: InputSegment[], length: number): void {
  if (length > 0) segments.push(segment('extra', '', { flat: Math.floor(length / 4), flatMax: Math.ceil(length / 2) }));
}

function addParts(segments: InputSegment[], kind: string, parts: readonly Part[]): void {
  for (const part of parts) segments.push(partSegment(kind, part));
}

function addItem(segments: InputSegment[], { content }: Item): void {
  switch (content.case) {
    case 'message': {
      const kind = roleNames[content.value.role] ?? 'message';
      segments.push(segment(kind, content.value.name, { flat: messageTokens }));
      addParts(segments, kind, content.value.parts);
      return;
    }
    case 'toolCall': {
      const { name, arguments: text, cache } = content.value;
      segments.push(segment('call', `${name}\n${text}`, { flat: callTokens, cache }));
      return;
    }
    case 'toolResult': {
      const { name, parts, cache } = content.value;
      segments.push(segment('result', name, { flat: callTokens }));
      addParts(segments, 'result', parts);
      if (cache !== undefined) segments.push(segment('result', '', { cache }));
      return;
    }
    case 'reasoning': {
      addParts(segments, 'reasoning', content.value.parts);
      const hidden = content.value.opaque.reduce((sum, opaque) => sum + opaque.data.length, 0);
      segments.push(segment('reasoning', '', { flat: messageTokens, flatMax: messageTokens + Math.ceil(hidden / 4) }));
      return;
    }
    case 'compaction': {
      const flat = Math.ceil((content.value.opaque?.data.length ?? 0) / 4);
      segments.push(segment('compaction', '', { flat }));
      return;
    }
    case 'serverTool':
      segments.push(segment('server tool', content.value.json));
      return;
    case 'unknown':
      segments.push(segment('unknown', content.value.json));
      return;
    case 'reference':
      segments.push(segment('reference', '', { isSizeUnknown: true }));
      break;
    case undefined:
  }
}

/** Returns the length of the unknown members of an item and its parts, in characters of JSON. */
function extraLength({ content, extra }: Item): number {
  let length = extra?.json.length ?? 0;
  if (content.case === 'message' || content.case === 'toolResult') {
    for (const part of content.value.parts) length += part.extra?.json.length ?? 0;
  }
  return length;
}

function toolSegment(tool: Tool): InputSegment {
  const facts = { flat: toolTokens, cache: tool.cache };
  switch (tool.tool.case) {
    case 'function':
    case 'custom': {
      const { value } = tool.tool;
      const shape = 'parametersJson' in value ? value.parametersJson : value.formatJson;
      return segment('tool', `${value.name}\n${value.description ?? ''}\n${shape}`, facts);
    }
    case 'hosted':
      return segment('tool', tool.tool.value.json, facts);
    case undefined:
      return segment('tool', '', facts);
  }
}

/** Returns the segments of a request's input, in the order in which an upstream reads them. Prompt caches compare prefixes of this order. */
export function inputSegments(request: GenerateRequest): InputSegment[] {
  const segments: InputSegment[] = [];
  for (const tool of request.tools) {
    segments.push(toolSegment(tool));
    addExtra(segments, tool.extra?.json.length ?? 0);
  }
  const schema = request.outputFormat?.schemaJson ?? '';
  if (schema !== '') segments.push(segment('format', schema, { flat: toolTokens }));
  if (request.instructions !== undefined)
    segments.push(segment('system', request.instructions, { flat: messageTokens }));
  for (const item of request.items) {
    addItem(segments, item);
    addExtra(segments, extraLength(item));
  }
  addExtra(segments, request.source?.unknownLength ?? 0);
  // The tokens that begin the answer.
  segments.push(segment('end', '', { flat: 3 }));
  return segments;
}
