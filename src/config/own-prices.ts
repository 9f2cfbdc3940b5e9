import type { ModelPrice } from '@pydantic/genai-prices';

/** A model that the price package does not know yet, with its prices in the package's form. */
export interface OwnPrice {
  readonly name: string;
  readonly contextLength: number;
  readonly prices: ModelPrice;
}

/** Returns the prices of one of OpenAI's models since GPT-5.6: cache writes cost 1.25 times the input, and above 272,000 tokens input costs twice, output 1.5 times as much. */
function openai(name: string, [input, output, cached]: readonly [number, number, number?]): OwnPrice {
  const tiers = (price: number, factor: number) => ({
    base: price,
    tiers: [{ start: 272_000, price: Number((price * factor).toFixed(6)) }],
  });
  const read = cached === undefined ? {} : { cache_read_mtok: tiers(cached, 2) };
  return {
    name,
    contextLength: 1_050_000,
    prices: {
      input_mtok: tiers(input, 2),
      cache_write_mtok: tiers(Number((input * 1.25).toFixed(6)), 2),
      ...read,
      output_mtok: tiers(output, 1.5),
    },
  };
}

const band = (base: number, above: number) => ({ base, tiers: [{ start: 100_000, price: above }] });

/**
 * Prices that the pinned price package lacks, by listed id; the package wins when it has them. Where a source names no price for cached input, it costs as much as other input. Sources, 2026-11-29:
 * developers.openai.com/api/docs/models (GPT-6.2 Astra and Sol), apidog.com "what is GPT-6.1 Terra", github.com/amine123max/Codex-Manager release 0.4.7 (GPT-6.1 Sol), which quote OpenAI's pages;
 * platform.claude.com/docs/en/models/sonnet-5-5/overview and haiku-5-5/overview; the read price of Sonnet 5.5 since 2026-10-07: github.com/TheKrush/PromptFuel release v1.0.23.
 */
export const ownPrices: Readonly<Record<string, OwnPrice>> = {
  'openai/gpt-6.2-astra': openai('GPT-6.2 Astra', [8, 40]),
  'openai/gpt-6.2-sol': openai('GPT-6.2 Sol', [2, 10]),
  'openai/gpt-6.1-sol': openai('GPT-6.1 Sol', [2, 10, 0.1]),
  'openai/gpt-6.1-terra': openai('GPT-6.1 Terra', [1, 5, 0.05]),
  'anthropic/claude-sonnet-5-5': {
    name: 'Claude Sonnet 5.5',
    contextLength: 1_000_000,
    prices: { input_mtok: 2, cache_write_mtok: 2.5, cache_write_1h_mtok: 4, cache_read_mtok: 0.1, output_mtok: 10 },
  },
  'anthropic/claude-haiku-5-5': {
    name: 'Claude Haiku 5.5',
    contextLength: 1_000_000,
    prices: {
      input_mtok: band(0.1, 0.5),
      cache_write_mtok: band(0.125, 0.625),
      cache_write_1h_mtok: band(0.2, 1),
      cache_read_mtok: band(0.01, 0.05),
      output_mtok: band(0.5, 2.5),
    },
  },
};
