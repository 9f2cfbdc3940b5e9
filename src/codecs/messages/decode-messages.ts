import { type Item, type Part, Role } from '../../gen/tollgate/v1/content_pb.ts';
import { type cacheHint, decodeCache } from '../cache-hint.ts';
import * as make from '../content.ts';
import { invalidField, members, readType, type UnknownMembers, UnknownValue } from '../schema.ts';
import type { SentTexts } from '../sent-body.ts';
import { extras } from './extras.ts';
import {
  blockMembers,
  type DocumentBlock,
  type ImageBlock,
  type KnownBlock,
  type MessagesMessage,
  type MessagesRequest,
  type ResultBlock,
  type TextBlock,
} from './request-schema.ts';
import { readBlobs, envelopeIn, redactedKind } from './reasoning-blobs.ts';

/**
 * Decodes messages to items, in the order of the blocks: text becomes message items; each call, each result and each reasoning block becomes
 * a separate item. Sources: docs/architecture.md "The form of a generation"; docs/interfaces/README.md
 * "Translation".
 */

type Block = Exclude<MessagesMessage['content'][number], string>;
type SystemPrompt = NonNullable<MessagesRequest['system']>;

const knownMessageMembers = members('role', 'content');
const knownSourceMembers = members('type', 'media_type', 'data', 'url', 'file_id', 'content');
const roles = { user: Role.USER, assistant: Role.ASSISTANT, system: Role.SYSTEM } as const;
/**
 * Blocks of the upstream's own tools: `server_tool_use`, `web_search_tool_result`, `mcp_tool_use`,
 * `container_upload`, … They are carried unchanged.
 */
const serverBlockName = /^(server_tool_use|[a-z_]+_tool_(use|result)|container_upload|compaction)$/;
/** A block that says which model continued the answer; models do not read it. */
const fallbackBlockName = 'fallback';

/** Returns items in the order of the blocks, the system prompt first. Throws `validation_error`. */
export function decodeMessages(
  system: SystemPrompt | undefined,
  messages: MessagesRequest['messages'],
  unknown: UnknownMembers,
  texts: SentTexts,
): Item[] {
  const decoder = new MessageDecoder(unknown, texts);
  if (system !== undefined) decoder.addSystem(system);
  for (const [index, message] of messages.entries()) decoder.add(message, index);
  return decoder.items;
}

class MessageDecoder {
  readonly items: Item[] = [];
  readonly #unknown: UnknownMembers;
  readonly #texts: SentTexts;

  constructor(unknown: UnknownMembers, texts: SentTexts) {
    this.#unknown = unknown;
    this.#texts = texts;
  }

  addSystem(system: SystemPrompt): void {
    if (system === '') return;
    const parts =
      typeof system === 'string'
        ? [make.makePart(make.textContent(system))]
        : system.map((block, index) => this.#part(block, `system.${index}`));
    if (parts.length > 0) this.items.push(make.makeItem(make.messageContent(Role.SYSTEM, parts), 0));
  }

  add(message: MessagesMessage | UnknownValue, index: number): void {
    const turn = index + 1;
    if (message instanceof UnknownValue) {
      this.items.push(make.makeItem(this.#unknown.content(message, `messages.${index}`), turn));
      return;
    }
    const role = roles[message.role];
    const first = this.items.length;
    const extra = this.#unknown.collect(message, knownMessageMembers, `messages.${index}`);
    if (typeof message.content === 'string') {
      this.items.push(
        make.makeItem(make.messageContent(role, [make.makePart(make.textContent(message.content))]), turn),
      );
    } else {
      for (const [at, block] of message.content.entries()) {
        this.#add({ block, role, turn }, `messages.${index}.content.${at}`);
      }
      if (this.items.length === first) this.items.push(make.makeItem(make.messageContent(role, []), turn));
    }
    const head = this.items[first];
    if (extra !== undefined && head !== undefined && head.extra === undefined) head.extra = extra;
  }

  #add({ block, role, turn }: { block: Block; role: Role; turn: number }, path: string): void {
    if (block instanceof UnknownValue) {
      if (serverBlockName.test(String(readType(block.value)))) {
        this.items.push(make.makeItem(extras.serverTool(block), turn));
      } else {
        this.#message(role, turn).push(this.#part(block, path));
      }
      return;
    }
    switch (block.type) {
      case 'tool_use':
      case 'tool_result':
      case 'thinking':
      case 'redacted_thinking':
        this.items.push(this.#item(block, turn, path));
        return;
      default:
        this.#message(role, turn).push(this.#part(block, path));
    }
  }

  /** Returns the parts of the message that a block is added to: the last item if it is a message of the same turn, else a new message. */
  #message(role: Role, turn: number): Part[] {
    const last = this.items.at(-1);
    if (last?.turn === turn && last.content.case === 'message') return last.content.value.parts;
    const parts: Part[] = [];
    this.items.push(make.makeItem(make.messageContent(role, parts), turn));
    return parts;
  }

  #item(
    block: Extract<KnownBlock, { type: 'tool_use' | 'tool_result' | 'thinking' | 'redacted_thinking' }>,
    turn: number,
    path: string,
  ): Item {
    const extra = this.#unknown.collect(block, blockMembers[block.type], path);
    switch (block.type) {
      case 'tool_use': {
        const { id: callId, name, input } = block;
        return make.makeItem(
          make.toolCallContent({
            callId,
            name,
            arguments: this.#texts.write(input),
            ...this.#cache(block, path),
          }),
          turn,
          extra,
        );
      }
      case 'tool_result': {
        const { tool_use_id: callId, content, is_error: isError } = block;
        const fields = { callId, isError: isError === true, ...this.#cache(block, path) };
        if (content == null) return make.makeItem(make.toolResultContent({ ...fields, plain: true }), turn, extra);
        if (typeof content === 'string') {
          return make.makeItem(
            make.toolResultContent({ ...fields, plain: true, parts: [make.makePart(make.textContent(content))] }),
            turn,
            extra,
          );
        }
        const parts = content.map((each, at) => this.#part(each, `${path}.content.${at}`));
        return make.makeItem(make.toolResultContent({ ...fields, parts }), turn, extra);
      }
      case 'thinking': {
        const signature = block.signature ?? '';
        const sealed = envelopeIn(signature);
        const parts = sealed?.parts ?? [make.makePart(make.reasoningTextContent(block.thinking))];
        // It is not known who signed it. The upstream that receives it will verify it.
        return make.makeItem(
          make.reasoningContent({ parts, opaque: readBlobs(signature, '') }),
          turn,
          sealed?.extra ?? extra,
        );
      }
      case 'redacted_thinking':
        return make.makeItem(
          make.reasoningContent({ opaque: [make.makeOpaque(redactedKind, block.data)], redacted: true }),
          turn,
          extra,
        );
    }
  }

  #part(block: ResultBlock | UnknownValue, path: string): Part {
    if (block instanceof UnknownValue) {
      return make.makePart(this.#unknown.content(block, path, readType(block.value) === fallbackBlockName));
    }
    const source = unknownSource(block);
    if (source !== undefined) return this.#unreadable(block, source, path);
    const extra = this.#unknown.collect(block, blockMembers[block.type], path);
    if (block.type === 'image' || block.type === 'document') {
      this.#unknown.list(block.source, knownSourceMembers, `${path}.source`);
    }
    const part = make.makePart(decodeContent(block, path), extra);
    return Object.assign(part, this.#cache(block, path));
  }

  /** Returns the part for a block that can't be read, because a value of an unknown kind contains its content. */
  #unreadable(block: ResultBlock, { known }: UnknownValue, path: string): Part {
    const whole = new UnknownValue({ ...block }, known);
    return make.makePart(this.#unknown.content(whole, `${path}.source.type`));
  }

  #cache({ cache_control: control }: Pick<ResultBlock, 'cache_control'>, path: string): ReturnType<typeof cacheHint> {
    return decodeCache(control, `${path}.cache_control`, this.#unknown);
  }
}

/** Returns the value of an unknown kind that a block contains, as its source or within it, if there is one. */
function unknownSource(block: ResultBlock): UnknownValue | undefined {
  if (block.type === 'image') return block.source instanceof UnknownValue ? block.source : undefined;
  if (block.type === 'search_result') return block.content.find(each => each instanceof UnknownValue);
  if (block.type !== 'document') return undefined;
  const { source } = block;
  if (source instanceof UnknownValue) return source;
  if (source.type !== 'content' || typeof source.content === 'string') return undefined;
  return source.content.find(each => each instanceof UnknownValue);
}

function decodeContent(block: ResultBlock, path: string): Part['content'] {
  switch (block.type) {
    case 'text': {
      const content = make.textContent(block.text);
      if (content.case === 'text')
        content.value.annotations.push(...(block.citations ?? []).map(each => extras.annotation(each)));
      return content;
    }
    case 'image':
      return make.imageContent(imageSource(block.source, `${path}.source`));
    case 'search_result': {
      const { cache_control: _, ...rest } = block;
      return { case: 'searchResult', value: { $typeName: 'tollgate.v1.SearchResultPart', json: JSON.stringify(rest) } };
    }
    case 'tool_reference':
      return make.toolReferenceContent(block.tool_name);
    case 'document':
      return documentContent(block, path);
  }
}

type MediaSource = ReturnType<typeof make.mediaSource>;

function base64Source(data: string, mediaType: string, path: string): MediaSource {
  if (!make.isBase64(data)) throw invalidField(`${path}.data`, 'must be base64');
  return make.mediaSource({ case: 'base64', value: data }, mediaType);
}

function urlSource(url: string, path: string): MediaSource {
  if (!/^https?:\/\/[^/]/i.test(url)) throw invalidField(`${path}.url`, 'must be an http(s) address');
  return make.mediaSource({ case: 'url', value: url });
}

function imageSource(source: ImageBlock['source'], path: string): MediaSource {
  if (source instanceof UnknownValue) return make.mediaSource({ case: undefined });
  if (source.type === 'base64') return base64Source(source.data, source.media_type, path);
  if (source.type === 'url') return urlSource(source.url, path);
  return make.mediaSource({ case: 'fileId', value: source.file_id });
}

function documentSource(source: DocumentBlock['source'], path: string): MediaSource {
  if (source instanceof UnknownValue) return make.mediaSource({ case: undefined });
  switch (source.type) {
    case 'base64':
      return base64Source(source.data, source.media_type, path);
    case 'text':
      return make.mediaSource({ case: 'text', value: source.data }, 'text/plain');
    case 'content': {
      // Upstreams of other protocols get only its text; a Messages upstream gets the block unchanged.
      const blocks = typeof source.content === 'string' ? [source.content] : source.content.map(readText);
      return make.mediaSource({ case: 'text', value: blocks.join('\n\n') }, 'text/plain');
    }
    case 'url':
      return urlSource(source.url, path);
    case 'file':
      return make.mediaSource({ case: 'fileId', value: source.file_id });
  }
}

function readText(block: TextBlock | ImageBlock | UnknownValue): string {
  return !(block instanceof UnknownValue) && block.type === 'text' ? block.text : '';
}

function documentContent(block: DocumentBlock, path: string): Part['content'] {
  const { title, context, citations } = block;
  return {
    case: 'file',
    value: {
      $typeName: 'tollgate.v1.FilePart',
      source: documentSource(block.source, `${path}.source`),
      filename: '',
      title: title ?? '',
      context: context ?? '',
      ...(citations?.enabled == null ? {} : { citations: citations.enabled }),
    },
  };
}
