import type { JsonValue } from '@bufbuild/protobuf';
import type { Pricing } from '../gen/tollgate/v1/catalog_pb.ts';
import type { GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import { findMemberFeature, findToolFeature, type PricedTool, pricedTools } from './priced-features.ts';

/** A tool that a request lets its provider run, and the price of a call. */
export interface ToolTerm {
  readonly tool: PricedTool;
  /** Price of one call. */
  readonly nanoUsd: bigint;
  /** The most calls that the request states; undefined: it states none. */
  readonly callsMax: number | undefined;
  /**
   * The member of the body that requests it and causes at least one call per answer; undefined: it is a tool, which the model may call or not.
   */
  readonly member: string | undefined;
}

/** The calls of a priced tool to hold for if neither the request nor `pricing.tool_calls` sets a number. */
const toolCallsDefault = 10;

/** Returns the tools with a price by the call that a request lets its provider run; usually none. */
export function readToolTerms(request: GenerateRequest, { toolNanoUsd }: Pricing): readonly ToolTerm[] {
  for (const _ in toolNanoUsd) return readTerms(request, toolNanoUsd);
  return none;
}

const none: readonly ToolTerm[] = [];

function readTerms({ tools, source }: GenerateRequest, prices: Pricing['toolNanoUsd']): ToolTerm[] {
  const terms = new Map<PricedTool, ToolTerm>();
  const add = (feature: string | undefined, facts: Pick<ToolTerm, 'callsMax' | 'member'>): void => {
    const tool = pricedTools.find(each => each === feature);
    const nanoUsd = tool && prices[tool];
    if (tool !== undefined && nanoUsd !== undefined) terms.set(tool, { tool, nanoUsd, ...facts });
  };
  for (const member of source?.unknownFields ?? []) {
    if (findMemberFeature(member, {}) === undefined || source === undefined) continue;
    const body = JSON.parse(Buffer.from(source.body).toString()) as Record<string, JsonValue>;
    add(findMemberFeature(member, body[member] ?? null), { callsMax: undefined, member });
  }
  for (const { tool } of tools) {
    if (tool.case !== 'hosted') continue;
    const json = JSON.parse(tool.value.json) as JsonValue;
    add(findToolFeature(json), { callsMax: readMaxUses(json), member: undefined });
  }
  return [...terms.values()];
}

/** Messages: `max_uses` of a tool. */
function readMaxUses(tool: JsonValue): number | undefined {
  if (typeof tool !== 'object' || tool === null || Array.isArray(tool)) return undefined;
  const { max_uses: uses } = tool;
  return typeof uses === 'number' && Number.isSafeInteger(uses) && uses >= 0 ? uses : undefined;
}

/**
 * Returns the highest possible cost of the calls of a request's tools, in nano-dollars, over `answers` upstream answers: by the request's
 * number of calls, else by the price list's.
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
