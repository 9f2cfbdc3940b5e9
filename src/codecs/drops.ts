import { GatewayError } from '../errors/gateway-error.ts';
import { type Item, Protocol, Role } from '../gen/tollgate/v1/content_pb.ts';
import type { GenerateRequest, SourceRequest, Tool } from '../gen/tollgate/v1/request_pb.ts';
import { fieldName } from '../generation/check/field-names.ts';

/** What an encoder can't say: dropped and listed where only quality may suffer, refused where the client would get something else. Source: wire.md C4. */
export class Drops {
  readonly #names = new Set<string>();

  /** Lists a dropped field by the client's name for it. */
  add(name: string): void {
    this.#names.add(name);
  }

  /** All that was dropped, each once, in the order of dropping. */
  list(): string[] {
    return [...this.#names];
  }
}

/** 400 `unsupported_parameter` for a field that the upstream's protocol can't say. */
export function unsupported(param: string, what: string): GatewayError {
  return new GatewayError('unsupported_parameter', `The model’s provider does not take ${what}.`, { param });
}

/** Throws if OpenAI's protocols don't take a name of a tool. */
export function checkToolName(name: string, param: string): void {
  if (/^[a-zA-Z0-9_-]{1,64}$/.test(name)) return;
  throw unsupported(param, 'a tool name of more than 64 letters, digits, "_" and "-"');
}

/** Returns what keeps a tool from being sent: it is of another protocol, or of no type. */
export function unsupportedTool({ tool }: Pick<Tool, 'tool'>, path: string): GatewayError {
  return unsupported(path, tool.case === 'hosted' ? `the tool type "${tool.value.type}"` : 'a tool without a type');
}

/** 400 `unsupported_parameter` for something in the conversation, by the client's name for the conversation. */
export function unsupportedContent(request: GenerateRequest, what: string): GatewayError {
  return unsupported(fieldName(request.endpoint, 'items'), what);
}

/** Returns the error for an item that a protocol without references and compactions can't say. */
export function unsupportedItem({ content }: Item, request: GenerateRequest): GatewayError {
  const what = {
    compaction: 'a compacted conversation',
    reference: 'references to stored items',
    serverTool: 'calls of tools that another provider ran',
  };
  const { case: name } = content;
  const isNamed = name === 'compaction' || name === 'reference' || name === 'serverTool';
  return unsupportedContent(request, isNamed ? what[name] : 'an item without a type');
}

/** Members that no other protocol knows and that change what the client gets, or what is done for it. Source: wire.md C4. */
const refusedMembers: Readonly<Partial<Record<Protocol, Readonly<Record<string, string>>>>> = {
  [Protocol.CHAT]: { modalities: 'answers that are not text', web_search_options: 'searches in the web' },
  [Protocol.MESSAGES]: { mcp_servers: 'tools of MCP servers' },
};
/** Pure hints: where they are not followed nothing is lost. Source: wire.md C4. */
const hintMembers: ReadonlySet<string> = new Set([
  'inference_geo',
  'prompt_cache_options',
  'prompt_cache_retention',
  'safety_identifier',
]);

/** What a request of another protocol says beyond the contract: most of it is dropped and listed. Throws `unsupported_parameter`. */
export function dropUnknown(source: SourceRequest | undefined, drops: Drops): void {
  if (source === undefined) return;
  const refused = refusedMembers[source.protocol] ?? {};
  for (const field of source.unknownFields) {
    const what = Object.hasOwn(refused, field) ? refused[field] : undefined;
    if (what !== undefined) throw unsupported(field, what);
    if (!hintMembers.has(field)) drops.add(field);
  }
}

/** Whether the conversation ends in the assistant's own words, which the model is to go on with. */
export function isPrefill(items: readonly Item[]): boolean {
  const last = items.at(-1)?.content;
  return last?.case === 'message' && last.value.role === Role.ASSISTANT;
}
