import { GatewayError } from '../errors/gateway-error.ts';
import { type Item, type Part, Protocol, Role } from '../gen/tollgate/v1/content_pb.ts';
import type { GenerateRequest, SourceRequest, Tool } from '../gen/tollgate/v1/request_pb.ts';
import { fieldName } from '../generation/check/field-names.ts';
import { unknownContent } from '../generation/portable/portable-request.ts';
import { unknownFields } from '../generation/portable/unknown-fields.ts';

/**
 * Collects the fields that an encoder drops because the upstream's protocol can't express them. A field is dropped if only quality may
 * suffer, and refused if the client would get another result. Source: docs/interfaces/README.md "Refused, listed or dropped".
 */
export class Drops {
  readonly #names = new Set<string>();

  /** Lists a dropped field by the client's name for it. */
  add(name: string): void {
    this.#names.add(name);
  }

  /** Returns all dropped fields, each once, in the order in which they were dropped. */
  list(): string[] {
    return [...this.#names];
  }
}

/** Returns the 400 `unsupported_parameter` for a field that the upstream's protocol can't express. */
export function unsupported(param: string, what: string): GatewayError {
  return new GatewayError('unsupported_parameter', `The model’s provider does not support ${what}.`, { param });
}

/** Throws if OpenAI's protocols don't accept a tool's name. */
export function checkToolName(name: string, param: string): void {
  if (/^[a-zA-Z0-9_-]{1,64}$/.test(name)) return;
  throw unsupported(param, 'a tool name of more than 64 letters, digits, "_" and "-"');
}

/** Returns the error for a tool that can't be sent: it belongs to another protocol, or has no type. */
export function unsupportedTool({ tool }: Pick<Tool, 'tool'>, path: string): GatewayError {
  return unsupported(path, tool.case === 'hosted' ? `the tool type "${tool.value.type}"` : 'a tool without a type');
}

/** Returns the 400 `unsupported_parameter` for a part of the conversation, by the client's name for the conversation. */
export function unsupportedContent(request: GenerateRequest, what: string): GatewayError {
  return unsupported(fieldName(request.endpoint, 'items'), what);
}

/** Returns the error for a part that a protocol can't express. `where`: the kind of message, if the protocol can express it in others. */
export function unsupportedPart({ content }: Part, request: GenerateRequest, where = ''): GatewayError {
  if (content.case === 'unknown') return unknownContent(content.value);
  return unsupportedContent(request, `parts of type ${content.case ?? 'none'}${where}`);
}

/** Returns the error for an item that a protocol can't express, for example a reference or a compaction. */
export function unsupportedItem({ content }: Item, request: GenerateRequest): GatewayError {
  const what = {
    compaction: 'a compacted conversation',
    reference: 'references to stored items',
    serverTool: 'calls of tools that another provider ran',
  };
  const { case: name } = content;
  if (name === 'unknown') return unknownContent(content.value);
  const isNamed = name === 'compaction' || name === 'reference' || name === 'serverTool';
  return unsupportedContent(request, isNamed ? what[name] : 'an item without a type');
}

/**
 * Drops and lists the members of another protocol's request that the contract has no field for. Throws `unsupported_parameter` for those
 * whose loss would give the client another result.
 */
export function dropUnknown(source: SourceRequest | undefined, drops: Drops): void {
  for (const field of unknownFields(source)) drops.add(field);
}

/** Returns whether the conversation ends with an answer that the client expects to be continued, as OpenAI's models do not: they begin a new one. */
export function isContinued({ source, items }: GenerateRequest): boolean {
  const isExpected = source?.protocol === Protocol.MESSAGES || source?.protocol === Protocol.GEMINI;
  return isExpected && isPrefill(items);
}

/** Returns whether the conversation ends with an assistant message, which the model should continue. */
export function isPrefill(items: readonly Item[]): boolean {
  const last = items.at(-1)?.content;
  return last?.case === 'message' && last.value.role === Role.ASSISTANT;
}
