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

/** Converts calls and results of tools that only Responses has (`shell_call`, …) to calls and results of functions, and converts calls back. */

type Members = Readonly<Record<string, unknown>>;

/** The member of a call with the arguments that the model wrote, by the type of the call. */
const argumentMembers: Readonly<Record<string, string>> = {
  local_shell_call: 'action',
  shell_call: 'action',
  apply_patch_call: 'operation',
  tool_search_call: 'arguments',
};
/** The name of the function for a type of call. */
const functionNames: Readonly<Record<string, string>> = {
  local_shell_call: 'local_shell',
  shell_call: 'shell',
  apply_patch_call: 'apply_patch',
  tool_search_call: 'tool_search',
};
/** The type of call that a result belongs to, by the type of the result. */
const callTypes: Readonly<Record<string, string>> = {
  local_shell_call_output: 'local_shell_call',
  shell_call_output: 'shell_call',
  apply_patch_call_output: 'apply_patch_call',
  tool_search_output: 'tool_search_call',
};

/** Returns the items with the calls and results of these tools converted to those of functions; the same list if there are none. */
export function plainCalls(items: readonly Item[]): readonly Item[] {
  return items.some(isProviderDefined) ? items.map(item => plainItem(item)) : items;
}

function isProviderDefined({ content }: Item): boolean {
  return (
    content.case === 'serverTool' && content.value.protocol === Protocol.RESPONSES && readType(content.value) !== ''
  );
}

/** Returns the type of a call or result of these tools; '' for any other item. Searches the text first, because most items are neither. */
function readType({ json }: ServerTool): string {
  if (!/"(?:local_shell|shell|apply_patch|tool_search)_(?:call|output|call_output)"/.test(json.slice(0, 4_096)))
    return '';
  const { type } = JSON.parse(json) as { type?: unknown };
  return typeof type === 'string' && (type in argumentMembers || type in callTypes) ? type : '';
}

function plainItem(item: Item): Item {
  const { content } = item;
  if (content.case !== 'serverTool' || !isProviderDefined(item)) return item;
  const members = JSON.parse(content.value.json) as Members;
  const type = toText(members['type']);
  const callId = toText(members['call_id']) || toText(members['id']);
  const argumentMember = argumentMembers[type];
  if (argumentMember !== undefined) {
    const { type: actionType, ...args } = (members[argumentMember] ?? {}) as Members;
    // The type of an action is kept only for patches, because it is fixed for all other calls.
    const keepsType = type === 'apply_patch_call' && actionType !== undefined;
    const text = JSON.stringify(keepsType ? { type: actionType, ...args } : args);
    const call = { callId, name: functionNames[type] ?? type, kind: ToolKind.FUNCTION, arguments: text };
    return { ...item, content: { case: 'toolCall', value: { $typeName: 'tollgate.v1.ToolCall', ...call } } };
  }
  const found = type === 'tool_search_output' ? toolsIn(members) : [];
  const parts = found.length > 0 ? found.map(toReference) : [textPart(outputText(members))];
  const result = { callId, name: '', kind: ToolKind.FUNCTION, parts, plain: parts.length === 1, isError: false };
  return { ...item, content: { case: 'toolResult', value: { $typeName: 'tollgate.v1.ToolResult', ...result } } };
}

function toText(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function outputText(members: Members): string {
  const { output } = members;
  if (output !== undefined) return typeof output === 'string' ? output : JSON.stringify(output);
  return JSON.stringify(Object.fromEntries(Object.entries(members).filter(([name]) => !idMembers.has(name))));
}

/** The members that identify an item. */
const idMembers: ReadonlySet<string> = new Set(['type', 'id', 'call_id']);

function toReference({ tool }: Tool): Part {
  const name = tool.case === 'function' ? tool.value.name : '';
  return {
    $typeName: 'tollgate.v1.Part',
    content: { case: 'toolReference', value: { $typeName: 'tollgate.v1.ToolReferencePart', name } },
  };
}

/** Returns the tools that the client's tool searches have found. Later requests need not repeat these in `tools`. */
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

/** Returns the functions in the result of a tool search, including those in groups. */
function toolsIn({ tools }: { readonly tools?: unknown }, group?: string): Tool[] {
  if (!Array.isArray(tools)) return [];
  return (tools as FoundTool[]).flatMap(({ type, name, description, parameters, tools: inner }) => {
    if (typeof name !== 'string') return [];
    if (type === 'namespace') return toolsIn({ tools: inner }, name);
    if (type !== 'function') return [];
    const parametersJson = typeof parameters === 'object' && parameters !== null ? JSON.stringify(parameters) : '';
    const described = typeof description === 'string' ? { description } : {};
    const value = { $typeName: 'tollgate.v1.FunctionTool', name, parametersJson, ...described } as const;
    const tool: Tool = { $typeName: 'tollgate.v1.Tool', tool: { case: 'function', value } };
    return [
      group === undefined ? tool : { ...tool, namespace: { $typeName: 'tollgate.v1.ToolNamespace', name: group } },
    ];
  });
}

/** A complete call of one of these tools. */
export interface EndedCall {
  /** The type of the call, such as `shell_call`. */
  readonly type: string;
  readonly callId: string;
  readonly args: string;
}

/** Returns a call of one of these tools in the form of the client's protocol. */
export function toProviderDefinedCall({ type, callId, args }: EndedCall, status: ItemStatus): Item['content'] {
  const json = JSON.stringify({
    type,
    id: `${type.replace('_call', '')}_${callId}`,
    call_id: callId,
    ...toMembers(type, parseMembers(args)),
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

/** Returns the arguments as an object; {} if they are not one. */
function parseMembers(args: string): Members {
  try {
    const value = JSON.parse(args) as unknown;
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Members) : {};
  } catch {
    return {};
  }
}
