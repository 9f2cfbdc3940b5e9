import {
  type Annotation,
  type Extra,
  type Item,
  ItemStatus,
  type MediaSource,
  type Part,
  Phase,
  Role,
  ToolKind,
} from '../../gen/tollgate/v1/content_pb.ts';
import type { JsonObject } from '../codec.ts';
import * as make from '../content.ts';
import { invalidField, members, type UnknownMembers, UnknownValue } from '../schema.ts';
import { parseAnnotation } from './annotation.ts';
import { readBlob, compactionKind, encryptedKind } from './blobs.ts';
import { extras } from './extras.ts';
import {
  itemMembers,
  type MessageItem,
  type OtherItem,
  partMembers,
  type ResponsesItem,
  type ResponsesPart,
} from './input-schema.ts';
import { parseTokens } from '../logprobs.ts';
import { renumberTurns } from '../../generation/turns.ts';

/** Decodes the items of a Responses request to items of the contract. Sources: docs/interfaces/responses.md "Stream"; docs/architecture.md "The form of a generation"; docs/interfaces/README.md "Translation". */

const shared = ['type', 'id', 'status'] as const;
const knownMessageMembers = members(...shared, 'role', 'content');
const knownReasoningMembers = members('type', 'text');
const knownAnswerMembers = members(...shared, 'role', 'content', 'phase');

/** Decodes the input's items in order; a text is a user message. `path`: the member that has them. Throws `validation_error`. */
export function decodeInput(input: string | readonly ResponsesItem[], unknown: UnknownMembers, path = 'input'): Item[] {
  if (typeof input === 'string')
    return [make.makeItem(make.messageContent(Role.USER, [make.makePart(make.textContent(input))]), 0)];
  const decoder = new ItemDecoder(unknown);
  return renumberTurns(input.map((item, index) => decoder.item(item, `${path}.${index}`)));
}

const roles = { system: Role.SYSTEM, developer: Role.DEVELOPER, user: Role.USER, assistant: Role.ASSISTANT } as const;
const phases = { commentary: Phase.COMMENTARY, final_answer: Phase.FINAL_ANSWER } as const;
const statuses = {
  in_progress: ItemStatus.IN_PROGRESS,
  completed: ItemStatus.COMPLETED,
  incomplete: ItemStatus.INCOMPLETE,
} as const;

class ItemDecoder {
  readonly #unknown: UnknownMembers;

  constructor(unknown: UnknownMembers) {
    this.#unknown = unknown;
  }

  item(item: ResponsesItem, path: string): Item {
    if (item instanceof UnknownValue) return make.makeItem(this.#unknown.content(item, path), 0);
    const decoded = this.#content(item, path);
    const { id, status } = item as { id?: unknown; status?: keyof typeof statuses | UnknownValue | null };
    if (typeof id === 'string' && decoded.content.case !== 'reference') decoded.id = id;
    if (decoded.content.case === 'serverTool') return decoded;
    const known = this.#unknown.knownOrWarn(status, `${path}.status`);
    if (known !== undefined) decoded.status = statuses[known];
    return decoded;
  }

  #content(item: Exclude<ResponsesItem, UnknownValue>, path: string): Item {
    if (isMessage(item)) return this.#message(item, path);
    if (isOther(item)) return this.#other(item, path);
    if (item.type == null || item.type === 'item_reference') {
      return make.makeItem(
        { case: 'reference', value: { $typeName: 'tollgate.v1.ItemReference', id: String(item['id']) } },
        0,
      );
    }
    return make.makeItem(extras.serverTool(item), 0);
  }

  #message(item: MessageItem, path: string): Item {
    const isAnswer = item.role === 'assistant';
    const extra = this.#unknown.collect(item, isAnswer ? knownAnswerMembers : knownMessageMembers, path);
    const content = make.messageContent(roles[item.role], this.#parts(item.content, `${path}.content`));
    const phase = isAnswer ? this.#unknown.knownOrWarn(item.phase, `${path}.phase`) : undefined;
    if (phase !== undefined && content.case === 'message') content.value.phase = phases[phase];
    return make.makeItem(content, 0, extra);
  }

  #other(item: OtherItem, path: string): Item {
    const extra = this.#unknown.collect(item, itemMembers[item.type], path);
    switch (item.type) {
      case 'reasoning':
        return make.makeItem(this.#reasoning(item, path), 0, extra);
      case 'compaction': {
        const opaque = readBlob(item.encrypted_content, compactionKind);
        return make.makeItem({ case: 'compaction', value: { $typeName: 'tollgate.v1.Compaction', opaque } }, 0, extra);
      }
      case 'function_call': {
        const { call_id: callId, name } = item;
        const fields = { callId, name, arguments: item.arguments, ...namespaceMember(item) };
        return make.makeItem(make.toolCallContent(fields), 0, extra);
      }
      case 'custom_tool_call': {
        const { call_id: callId, name, input } = item;
        const fields = { callId, name, arguments: input, kind: ToolKind.CUSTOM, ...namespaceMember(item) };
        return make.makeItem(make.toolCallContent(fields), 0, extra);
      }
      default:
        return this.#result(item, path, extra);
    }
  }

  #result(item: Extract<OtherItem, { output: unknown }>, path: string, extra: Extra | undefined): Item {
    const { type, call_id: callId, name, output } = item;
    const kind = type === 'custom_tool_call_output' ? ToolKind.CUSTOM : ToolKind.FUNCTION;
    const plain = typeof output === 'string';
    const parts = this.#parts(output, `${path}.output`);
    const fields = { callId: callId ?? '', name: name ?? '', kind, plain, parts, ...namespaceMember(item) };
    return make.makeItem(make.toolResultContent(fields), 0, extra);
  }

  #parts(content: string | readonly (ResponsesPart | UnknownValue)[], path: string): Part[] {
    if (typeof content === 'string') return [make.makePart(make.textContent(content))];
    return content.map((part, index) => {
      if (part instanceof UnknownValue) return make.makePart(this.#unknown.content(part, `${path}.${index}`));
      const extra = this.#unknown.collect(part, partMembers[part.type], `${path}.${index}`);
      return make.makePart(this.#part(part, `${path}.${index}`), extra);
    });
  }

  #part(part: ResponsesPart, path: string): Part['content'] {
    if (part.type !== 'input_image') return decodeContent(part, path);
    return make.imageContent(imageSource(part, path), this.#unknown.knownOrWarn(part.detail, `${path}.detail`) ?? '');
  }

  #reasoning(item: Extract<OtherItem, { type: 'reasoning' }>, path: string): Item['content'] {
    const parts = [
      ...item.summary.map((part, index) => this.#reasoningPart(part, `${path}.summary.${index}`)),
      ...(item.content ?? []).map((part, index) => this.#reasoningPart(part, `${path}.content.${index}`)),
    ];
    const sealed = item.encrypted_content ?? '';
    return make.reasoningContent({ parts, opaque: sealed === '' ? [] : [readBlob(sealed, encryptedKind)] });
  }

  #reasoningPart(part: ReasoningPart | UnknownValue, path: string): Part {
    // A hint, because reasoning of another upstream may be dropped anyway.
    if (part instanceof UnknownValue) return make.makePart(this.#unknown.content(part, path, true));
    const isSummary = part.type === 'summary_text';
    const content = isSummary ? make.summaryTextContent(part.text) : make.reasoningTextContent(part.text);
    return make.makePart(content, this.#unknown.collect(part, knownReasoningMembers, path));
  }
}

interface ReasoningPart {
  readonly type: 'summary_text' | 'reasoning_text';
  readonly text: string;
}

function namespaceMember({ namespace }: { readonly namespace?: string | null | undefined }): { namespace?: string } {
  return namespace == null ? {} : { namespace };
}

function isMessage(item: Exclude<ResponsesItem, UnknownValue>): item is MessageItem {
  return 'role' in item && (item.type == null || item.type === 'message');
}

function isOther(item: Exclude<ResponsesItem, UnknownValue>): item is OtherItem {
  return typeof item.type === 'string' && Object.hasOwn(itemMembers, item.type);
}

function decodeContent(part: Exclude<ResponsesPart, { type: 'input_image' }>, path: string): Part['content'] {
  switch (part.type) {
    case 'input_text':
      return make.textContent(part.text);
    case 'refusal':
      return make.refusalContent(part.refusal);
    case 'output_text': {
      const annotations = (part.annotations ?? []).map((each): Annotation => parseAnnotation(each as JsonObject));
      const value = { $typeName: 'tollgate.v1.TextPart', text: part.text, annotations } as const;
      return { case: 'text', value: { ...value, logprobs: parseTokens(part.logprobs ?? undefined) } };
    }
    case 'input_file':
      return fileContent(part, path);
    case 'input_audio': {
      const { data, format } = part.input_audio;
      const source = make.mediaSource({ case: 'base64', value: data }, `audio/${format === 'mp3' ? 'mpeg' : format}`);
      return { case: 'audio', value: { $typeName: 'tollgate.v1.AudioPart', source, format } };
    }
    case 'input_video': {
      const source = urlSource(part.video_url, `${path}.video_url`);
      return { case: 'video', value: { $typeName: 'tollgate.v1.VideoPart', source } };
    }
  }
}

/** Returns the source of a URL: the bytes of a data URL, or the address. */
function urlSource(url: string, path: string): MediaSource {
  if (!/^data:/i.test(url)) {
    if (!/^https?:\/\/[^/]/i.test(url)) throw invalidField(path, 'must be an http(s) address or a data URL');
    return make.mediaSource({ case: 'url', value: url });
  }
  const data = make.parseDataUrl(url);
  if (data === undefined || !make.isBase64(data.base64))
    throw invalidField(path, 'must be a data URL with base64 data');
  return make.mediaSource({ case: 'base64', value: data.base64 }, data.mediaType);
}

function imageSource(
  { image_url: url, file_id: fileId }: Extract<ResponsesPart, { type: 'input_image' }>,
  path: string,
): MediaSource {
  if (url != null) return urlSource(url, `${path}.image_url`);
  if (fileId != null) return make.mediaSource({ case: 'fileId', value: fileId });
  throw invalidField(`${path}.image_url`, 'is required', 'invalid_type');
}

function fileContent(file: Extract<ResponsesPart, { type: 'input_file' }>, path: string): Part['content'] {
  const value = {
    $typeName: 'tollgate.v1.FilePart',
    source: fileSource(file, path),
    filename: file.filename ?? '',
    title: '',
    context: '',
  } as const;
  return { case: 'file', value };
}

function fileSource(
  { file_data: data, file_url: url, file_id: fileId }: Extract<ResponsesPart, { type: 'input_file' }>,
  path: string,
): MediaSource {
  if (data != null) {
    if (/^data:/i.test(data)) return urlSource(data, `${path}.file_data`);
    if (!make.isBase64(data)) throw invalidField(`${path}.file_data`, 'must be base64, or a data URL with base64 data');
    return make.mediaSource({ case: 'base64', value: data });
  }
  if (url != null) return urlSource(url, `${path}.file_url`);
  if (fileId != null) return make.mediaSource({ case: 'fileId', value: fileId });
  throw invalidField(`${path}.file_data`, 'is required, or `file_url`', 'invalid_type');
}
