import {
  type Item,
  ItemStatus,
  type Part,
  Protocol,
  type ServerTool,
  ToolKind,
} from '../../gen/tollgate/v1/content_pb.ts';
import type { Tool } from '../../gen/tollgate/v1/request_pb.ts';
import { textPart } from './text-part.ts';

/** Converts calls of tools in a form that only Responses has (`shell_call`, …) and their results to those of plain functions and back. */

type Members = Readonly<Record<string, unknown>>;

/** The member of a call with the text that the model wrote, by the call's type. */
const argumentMembers: Readonly<Record<string, string>> = {
  local_shell_call: 'action',
  shell_call: 'action',
  apply_patch_call: 'operation',
  tool_search_call: 'arguments',
};
const names: Readonly<Record<string, string>> = {
  local_shell_call: 'local_shell',
  shell_call: 'shell',
  apply_patch_call: 'apply_patch',
  tool_search_call: 'tool_search',
};
/** The type of the call that a result belongs to. */
const answered: Readonly<Record<string, string>> = {
  local_shell_call_output: 'local_shell_call',
  shell_call_output: 'shell_call',
  apply_patch_call_output: 'apply_patch_call',
  tool_search_output: 'tool_search_call',
};

/** Returns the items with such calls and results converted to plain ones; the same list if there are none. */
export function plainCalls(items: readonly Item[]): readonly Item[] {
  return items.some(isVendorItem) ? items.map(item => plainItem(item)) : items;
}

function isVendorItem({ content }: Item): boolean {
  return (
    content.case === 'serverTool' && content.value.protocol === Protocol.RESPONSES && readType(content.value) !== ''
  );
}

/** Returns the type of an item that is such a call or result; '' for any other. Searches the text first, because most items are neither. */
function readType({ json }: ServerTool): string {
  if (!/"(?:local_shell|shell|apply_patch|tool_search)_(?:call|output|call_output)"/.test(json.slice(0, 4_096)))
    return '';
  const { type } = JSON.parse(json) as { type?: unknown };
  return typeof type === 'string' && (type in argumentMembers || type in answered) ? type : '';
}

function plainItem(item: Item): Item {
  const { content } = item;
  if (content.case !== 'serverTool' || !isVendorItem(item)) return item;
  const said = JSON.parse(content.value.json) as Members;
  const type = toText(said['type']);
  const callId = toText(said['call_id']) || toText(said['id']);
  const argumentMember = argumentMembers[type];
  if (argumentMember !== undefined) {
    const { type: form, ...args } = (said[argumentMember] ?? {}) as Members;
    const isNamed = type === 'apply_patch_call' && form !== undefined;
    const text = JSON.stringify(isNamed ? { type: form, ...args } : args);
    const call = { callId, name: names[type] ?? type, kind: ToolKind.FUNCTION, arguments: text };
    return { ...item, content: { case: 'toolCall', value: { $typeName: 'tollgate.v1.ToolCall', ...call } } };
  }
  const found = type === 'tool_search_output' ? toolsIn(said) : [];
  const parts = found.length > 0 ? found.map(referenceTo) : [textPart(outputText(said))];
  const result = { callId, name: '', kind: ToolKind.FUNCTION, parts, plain: parts.length === 1, isError: false };
  return { ...item, content: { case: 'toolResult', value: { $typeName: 'tollgate.v1.ToolResult', ...result } } };
}

function toText(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function outputText(said: Members): string {
  const { output } = said;
  if (output !== undefined) return typeof output === 'string' ? output : JSON.stringify(output);
  return JSON.stringify(Object.fromEntries(Object.entries(said).filter(([name]) => !named.has(name))));
}

/** The members that identify an item. */
const named: ReadonlySet<string> = new Set(['type', 'id', 'call_id']);

function referenceTo({ tool }: Tool): Part {
  const name = tool.case === 'function' ? tool.value.name : '';
  return {
    $typeName: 'tollgate.v1.Part',
    content: { case: 'toolReference', value: { $typeName: 'tollgate.v1.ToolReferencePart', name } },
  };
}

/** Returns the tools that searches of the client have found, which a request need not repeat. */
export function foundTools(items: readonly Item[]): Tool[] {
  return items.flatMap(({ content }) => {
    if (content.case !== 'serverTool' || readType(content.value) !== 'tool_search_output') return [];
    return toolsIn(JSON.parse(content.value.json) as Members);
  });
}

interface FoundTool {
  readonly type?: unknown;
  readonly name?: unknown;
  readonly description?: unknown;
  readonly parameters?: unknown;
  readonly tools?: unknown;
}

/** The functions of a search's result, those of groups too. */
function toolsIn({ tools }: { readonly tools?: unknown }, group?: string): Tool[] {
  if (!Array.isArray(tools)) return [];
  return (tools as FoundTool[]).flatMap(({ type, name, description, parameters, tools: inner }) => {
    if (typeof name !== 'string') return [];
    if (type === 'namespace') return toolsIn({ tools: inner }, name);
    if (type !== 'function') return [];
    const parametersJson = typeof parameters === 'object' && parameters !== null ? JSON.stringify(parameters) : '';
    const said = typeof description === 'string' ? { description } : {};
    const value = { $typeName: 'tollgate.v1.FunctionTool', name, parametersJson, ...said } as const;
    const tool: Tool = { $typeName: 'tollgate.v1.Tool', tool: { case: 'function', value } };
    return [
      group === undefined ? tool : { ...tool, namespace: { $typeName: 'tollgate.v1.ToolNamespace', name: group } },
    ];
  });
}

/** A call of such a tool that has ended. */
export interface EndedCall {
  /** The type of such calls. */
  readonly type: string;
  readonly callId: string;
  readonly args: string;
}

/** Returns such a call as the client's protocol writes it. */
export function vendorCall({ type, callId, args }: EndedCall, status: ItemStatus): Item['content'] {
  const json = JSON.stringify({
    type,
    id: `${type.replace('_call', '')}_${callId}`,
    call_id: callId,
    ...toMembers(type, parsed(args)),
    status: status === ItemStatus.INCOMPLETE ? 'incomplete' : 'completed',
  });
  return {
    case: 'serverTool',
    value: { $typeName: 'tollgate.v1.ServerTool', protocol: Protocol.RESPONSES, json },
  };
}

function toMembers(type: string, args: Members): Members {
  switch (type) {
    case 'local_shell_call':
      return { action: { type: 'exec', env: {}, ...args } };
    case 'shell_call':
      return { action: { timeout_ms: null, max_output_length: null, ...args } };
    case 'tool_search_call':
      return { arguments: args, execution: 'client' };
    default:
      return { operation: args };
  }
}

function parsed(args: string): Members {
  try {
    const value = JSON.parse(args) as unknown;
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Members) : {};
  } catch {
    return {};
  }
}
