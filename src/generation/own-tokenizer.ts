/**
 * Models whose tokenizer is the gateway's (o200k_base), by the provider's name of them. Source: the prefixes of OpenAI's models in github.com/dotnet/machinelearning/pull/7556, 2026-11-28. The built-in models (`sim/`)
 * count with it too.
 */
const ownModels = /(^|\/)(sim\/|(gpt-4o|chatgpt-4o|gpt-4\.[15]|gpt-5|gpt-oss|o1|o3|o4-mini)(?![a-z0-9]))/;

/** The most tokens of another tokenizer for each of the gateway's: Anthropic's newest has about a third more. */
export const foreignTokensMost = 1.35;

/** Returns whether the gateway's tokenizer is that of a model. */
export function hasOwnTokenizer({ model }: { readonly model: string }): boolean {
  return ownModels.test(model);
}
