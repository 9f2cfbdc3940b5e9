import type { JsonValue } from '@bufbuild/protobuf';
import type { Pricing } from '../gen/tollgate/v1/catalog_pb.ts';
import type { GenerateRequest, Tool } from '../gen/tollgate/v1/request_pb.ts';
import { toProviderDefinedTool } from './portable/provider-defined-tools.ts';
import { findToolFeature, memberFeature, type PricedTool, pricedTools } from './priced-features.ts';

/** A tool that a request lets its provider run, with the price of a call. */
export interface ToolTerm {
  readonly tool: PricedTool;
  /** The price of one call. */
  readonly nanoUsd: bigint;
  /** The most calls that the request allows; undefined: it does not say. */
  readonly callsMax: number | undefined;
  /**
   * The member of the body that requests the tool and causes at least one call per candidate; undefined: the request has it in `tools`, and the model decides whether to call it.
   */
  readonly member: string | undefined;
}

/** For how many calls of a priced tool money is held if neither the request nor `pricing.tool_calls` has a number. */
const toolCallsDefault = 10;

/** Returns the tools priced per call that a request lets its provider run; usually there are none. */
export function readToolTerms(request: GenerateRequest, { toolNanoUsd }: Pricing): readonly ToolTerm[] {
  for (const _ in toolNanoUsd) return readTerms(request, toolNanoUsd);
  return none;
}

/** Returns whether a request lets its provider run tools, priced or not. */
export function mayRunTools({ tools, source }: Pick<GenerateRequest, 'tools' | 'source'>): boolean {
  return (source?.pricedFields.length ?? 0) > 0 || tools.some(isRunUpstream);
}

function isRunUpstream(tool: Tool): boolean {
  return tool.tool.case === 'hosted' && toProviderDefinedTool(tool) === undefined;
}

/** How often a provider is expected to read an input again for the results of its tools, if the request does not say. */
const passesDefault = 4;
/** The most passes that are held. */
const passesMax = 64;

/**
 * Returns how often a provider may read the input because of tools that it runs: `max_tool_calls`, else `max_uses` of the tools, else 4; 0: it gets no such tool. Known tools without a price do not reach it.
 */
export function countPasses(request: GenerateRequest, { toolNanoUsd }: Pricing): number {
  const limits: (number | undefined)[] = request.source?.pricedFields.map(() => undefined) ?? [];
  for (const tool of request.tools) {
    if (tool.tool.case !== 'hosted' || !isRunUpstream(tool)) continue;
    const json = JSON.parse(tool.tool.value.json) as JsonValue;
    const feature = findToolFeature(json);
    if (feature === undefined || feature in toolNanoUsd) limits.push(readMaxUses(json));
  }
  if (limits.length === 0) return 0;
  const used = limits.reduce<number>((sum, each) => sum + (each ?? 0), 0);
  const most = request.maxToolCalls ?? (limits.includes(undefined) ? Math.max(passesDefault, used) : used);
  return Math.max(1, Math.min(most, passesMax));
}

const none: readonly ToolTerm[] = [];

function readTerms({ tools, source }: GenerateRequest, prices: Pricing['toolNanoUsd']): ToolTerm[] {
  const terms = new Map<PricedTool, ToolTerm>();
  const add = (feature: string | undefined, facts: Pick<ToolTerm, 'callsMax' | 'member'>): void => {
    const tool = pricedTools.find(each => each === feature);
    const nanoUsd = tool && prices[tool];
    if (tool !== undefined && nanoUsd !== undefined) terms.set(tool, { tool, nanoUsd, ...facts });
  };
  for (const member of source?.pricedFields ?? []) add(memberFeature(member), { callsMax: undefined, member });
  for (const { tool } of tools) {
    if (tool.case !== 'hosted') continue;
    const json = JSON.parse(tool.value.json) as JsonValue;
    add(findToolFeature(json), { callsMax: readMaxUses(json), member: undefined });
  }
  return [...terms.values()];
}

/** Returns `max_uses` of a tool in a Messages request; undefined if it has none. */
function readMaxUses(tool: JsonValue): number | undefined {
  if (typeof tool !== 'object' || tool === null || Array.isArray(tool)) return undefined;
  const { max_uses: uses } = tool;
  return typeof uses === 'number' && Number.isSafeInteger(uses) && uses >= 0 ? uses : undefined;
}

/**
 * Returns the highest possible cost of calls of a request's tools in `answers` upstream calls, in nano-dollars. The number of calls is that of the request, else that of the price list.
 */
export function holdToolCalls(
  terms: readonly ToolTerm[],
  { maxToolCalls }: Pick<GenerateRequest, 'maxToolCalls'>,
  { toolCalls = toolCallsDefault }: Pick<Pricing, 'toolCalls'>,
  answers: number,
): bigint {
  let all = 0n;
  let highest = 0n;
  for (const { nanoUsd, callsMax = maxToolCalls ?? toolCalls } of terms) {
    all += nanoUsd * BigInt(callsMax);
    if (nanoUsd > highest) highest = nanoUsd;
  }
  const allowed = maxToolCalls === undefined ? all : highest * BigInt(maxToolCalls);
  return (allowed < all ? allowed : all) * BigInt(answers);
}
