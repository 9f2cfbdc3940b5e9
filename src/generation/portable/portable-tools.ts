import { GatewayError } from '../../errors/gateway-error.ts';
import type { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import {
  type GenerateRequest,
  type HostedTool,
  type Tool,
  type ToolChoice,
  ToolChoiceMode,
} from '../../gen/tollgate/v1/request_pb.ts';
import { toolName } from '../check/check-request.ts';
import { FlatNames } from './flat-names.ts';
import { toProviderDefinedTool, type ProviderDefinedTool } from './provider-defined-tools.ts';

/** The tools that an upstream gets. */
export interface OfferedTools {
  /** The tools to send; the same list as in the request if nothing was changed. */
  readonly tools: readonly Tool[];
  readonly toolChoice: ToolChoice | undefined;
  /** The flat names of tools that were in groups. */
  readonly flat: FlatNames;
  /** The provider-defined tools that were converted to functions, by name. */
  readonly plain: ReadonlyMap<string, ProviderDefinedTool>;
}

/**
 * Returns a request's tools for an upstream of a protocol. Tools that only upstreams of another protocol run are left out and added to `dropped`; those that the client runs become functions; groups are flattened; deferred tools are included if they were found. Throws `unsupported_feature` if `tool_choice` demands a tool that is left out.
 */
export function offerTools(request: GenerateRequest, protocol: Protocol | undefined, dropped: string[]): OfferedTools {
  const { tools, toolChoice } = request;
  const isForeign = ({ tool }: Tool): boolean => tool.case === 'hosted' && tool.value.protocol !== protocol;
  const plain = new Map<string, ProviderDefinedTool>();
  const flat = new FlatNames(
    new Set(tools.flatMap(tool => (tool.namespace === undefined ? (toolName(tool) ?? []) : []))),
  );
  const isPortable = tools.every(tool => !isForeign(tool) && tool.namespace === undefined && tool.deferred !== true);
  if (isPortable) return { tools, toolChoice, flat, plain };
  const left: HostedTool[] = [];
  const translated = tools.flatMap(tool => {
    if (!isForeign(tool)) return [tool];
    const own = toProviderDefinedTool(tool);
    if (own !== undefined) {
      plain.set(own.name, own);
      return [own.tool];
    }
    if (tool.tool.case === 'hosted') left.push(tool.tool.value);
    return [];
  });
  for (const { type } of left) dropped.push(`tools.${type}`);
  const found = left.some(({ type }) => type.startsWith('tool_search')) ? undefined : foundNames(request);
  const offered = translated.flatMap(tool => {
    const isHidden = tool.deferred === true && found?.has(toolName(tool) ?? '') === false;
    return isHidden ? [] : [flattenTool(tool, flat)];
  });
  return { tools: offered, toolChoice: choiceAmong(request, { offered, left, flat }), flat, plain };
}

/** Returns the names of deferred tools that the conversation uses: those that were found, were called, or are in `tool_choice`. */
function foundNames({ items, toolChoice }: GenerateRequest): ReadonlySet<string> {
  const found = new Set(toolChoice?.tools.map(({ name }) => name));
  for (const { content } of items) {
    if (content.case === 'toolCall') found.add(content.value.name);
    if (content.case !== 'toolResult' && content.case !== 'message') continue;
    for (const part of content.value.parts) {
      if (part.content.case === 'toolReference') found.add(part.content.value.name);
    }
  }
  return found;
}

function flattenTool(tool: Tool, flat: FlatNames): Tool {
  const { namespace: group, deferred: _, ...rest } = tool;
  if (group === undefined) return rest;
  const { case: kind, value } = tool.tool;
  const rename = (name: string): string => flat.flatten({ namespace: group.name, name });
  if (kind === 'function') return { ...rest, tool: { case: kind, value: { ...value, name: rename(value.name) } } };
  if (kind === 'custom') return { ...rest, tool: { case: kind, value: { ...value, name: rename(value.name) } } };
  return rest;
}

interface Offer {
  readonly offered: readonly Tool[];
  /** The tools that are left out. */
  readonly left: readonly HostedTool[];
  readonly flat: FlatNames;
}

/** Returns the names by which a choice may refer to a tool that a provider runs: its type, and the name that Messages gives it. */
function namesIn({ type, json }: HostedTool): string[] {
  const { name } = JSON.parse(json) as { readonly name?: unknown };
  return typeof name === 'string' ? [type, name] : [type];
}

/** Returns the tool choice for the remaining tools; undefined if none is needed. */
function choiceAmong(request: GenerateRequest, { offered, left, flat }: Offer): ToolChoice | undefined {
  const { toolChoice, tools: requested } = request;
  if (toolChoice === undefined) return undefined;
  const { mode, tools, restricted } = toolChoice;
  const names = new Set(left.flatMap(namesIn));
  const kept = tools.filter(({ name }) => !names.has(name));
  const [missing] = tools.filter(({ name }) => names.has(name));
  const insists = mode === ToolChoiceMode.REQUIRED || mode === ToolChoiceMode.NAMED;
  if (insists && (offered.length === 0 || (missing !== undefined && kept.length === 0))) {
    const what = missing?.name ?? left[0]?.type ?? 'deferred';
    throw new GatewayError(
      'unsupported_feature',
      `The model’s provider can’t run the tool ${what}, which tool_choice demands.`,
      {
        param: 'tool_choice',
      },
    );
  }
  if (offered.length === 0) return undefined;
  const renamed = kept.map(tool => {
    const group = requested.find(each => toolName(each) === tool.name)?.namespace;
    return group === undefined ? tool : { ...tool, name: flat.flatten({ namespace: group.name, name: tool.name }) };
  });
  // If none of the allowed tools is left, no tool may be called.
  if (restricted && renamed.length === 0)
    return { ...toolChoice, mode: ToolChoiceMode.NONE, tools: [], restricted: false };
  return { ...toolChoice, tools: renamed };
}
