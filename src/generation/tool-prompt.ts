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
 * The tokens that models add for tools, beside those of the tools themselves, by the provider's name of the model; the first match counts. Source: the medians of 2,563 recorded requests of 2024 to 2026-09 (Claude with tools: 263), between what
 * providers reported and what the gateway counts. Anthropic's own table, for older models, has lower numbers (docs.anthropic.com, "Tool use pricing and tokens").
 */
const toolPrompts: readonly (Readonly<Record<ToolUse, number>> & {
  readonly model: RegExp;
  readonly plain?: number;
})[] = [
  { model: /claude-3-opus/, auto: 595, forced: 595 },
  { model: /claude-3-/, auto: 337, forced: 384 },
  { model: /claude-(sonnet|opus)-4([-.][01])?($|[-@]20)/, auto: 395, forced: 347 },
  { model: /claude-(sonnet|opus|haiku)-4[-.][5-7]/, auto: 554, forced: 650 },
  { model: /claude-/, auto: 438, forced: 574 },
  // Open models, as servers write tools into their templates; a template may add something to every request (`plain`).
  { model: /gpt-oss/, auto: 60, forced: 60, plain: 62 },
  { model: /deepseek/, auto: 242, forced: 242 },
  { model: /llama/, auto: 661, forced: 661 },
  { model: /grok/, auto: 164, forced: 164 },
  { model: /qwen/, auto: 116, forced: 116 },
  { model: /glm-/, auto: 121, forced: 121 },
  { model: /kimi/, auto: 68, forced: 68 },
  { model: /mistral|magistral|codestral|ministral|devstral/, auto: 44, forced: 44 },
];

/** Returns the tokens that a model adds to a request whose tools are used so (undefined: it has none), if nothing was learned about it; 0: none that are known. `model`: the provider's name of it. */
export function toolPromptTokens(model: string, use: ToolUse | undefined): number {
  return toolPrompts.find(each => each.model.test(model))?.[use ?? 'plain'] ?? 0;
}
