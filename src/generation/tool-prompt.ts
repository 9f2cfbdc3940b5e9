import { type GenerateRequest, ToolChoiceMode } from '../gen/tollgate/v1/request_pb.ts';

/** How a request with tools has them used: as the model decides, or at least one of them for certain. Providers add different prompts for the two. */
export type ToolUse = 'auto' | 'forced';

/** Returns how a request's tools are used; undefined: it has no tools. */
export function readToolUse({ tools, toolChoice }: Pick<GenerateRequest, 'tools' | 'toolChoice'>): ToolUse | undefined {
  if (tools.length === 0) return undefined;
  const mode = toolChoice?.mode;
  return mode === ToolChoiceMode.REQUIRED || mode === ToolChoiceMode.NAMED ? 'forced' : 'auto';
}

/**
 * The tokens that models add for tools, beside those of the tools themselves, by the provider's name of the model; the first match counts. Source: the medians of 263 recorded requests with tools of 2024 to 2026-09, between what
 * Anthropic reported and what the gateway counts. Anthropic's own table, for older models, has lower numbers (docs.anthropic.com, "Tool use pricing and tokens").
 */
const toolPrompts: readonly (Readonly<Record<ToolUse, number>> & { readonly model: RegExp })[] = [
  { model: /claude-3-opus/, auto: 595, forced: 595 },
  { model: /claude-3-/, auto: 337, forced: 384 },
  { model: /claude-(sonnet|opus)-4([-.][01])?($|[-@]20)/, auto: 395, forced: 347 },
  { model: /claude-(sonnet|opus|haiku)-4[-.][5-7]/, auto: 554, forced: 650 },
  { model: /claude-/, auto: 438, forced: 574 },
];

/** Returns the tokens that a model adds for tools that are used so, if nothing was learned about it; 0: none that are known. `model`: the provider's name of it. */
export function toolPromptTokens(model: string, use: ToolUse | undefined): number {
  if (use === undefined) return 0;
  return toolPrompts.find(each => each.model.test(model))?.[use] ?? 0;
}
