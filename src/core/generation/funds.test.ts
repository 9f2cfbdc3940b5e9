import { create } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Model, ModelSchema } from '../../gen/tollgate/v1/catalog_pb.ts';
import { CacheLifetime, Protocol, Role } from '../../gen/tollgate/v1/content_pb.ts';
import { GenerateRequestSchema } from '../../gen/tollgate/v1/request_pb.ts';
import { costLines, sumCost, priceSheet } from '../../generation/price.ts';
import { clientLimit, estimateFunds, type MeasuredInput, toMultiplier, toolPasses, withFewerPasses } from './funds.ts';

function model(init: Parameters<typeof create<typeof ModelSchema>>[1]): Model {
  return create(ModelSchema, { id: 'acme/large', maxOutputTokens: 8192, ...init });
}

const priced = model({
  pricing: {
    inputPicoUsd: 1_000_000n,
    outputPicoUsd: 4_000_000n,
    caching: { readPicoUsd: 100_000n, write5mPicoUsd: 1_250_000n, write1hPicoUsd: 2_000_000n },
    above: [{ inputTokens: 1000, inputPicoUsd: 3_000_000n, outputPicoUsd: 9_000_000n }],
  },
});

function request(text: string, init: Parameters<typeof create<typeof GenerateRequestSchema>>[1] = {}) {
  return create(GenerateRequestSchema, {
    items: [
      {
        content: {
          case: 'message',
          value: { role: Role.USER, parts: [{ content: { case: 'text', value: { text } } }] },
        },
      },
    ],
    ...init,
  });
}

/** With it, a request may write its input to a cache for an hour, which costs most. */
const anHour = { lifetime: CacheLifetime.CACHE_LIFETIME_1H };

describe('estimateFunds', () => {
  test('holds the input at its most expensive price and a slice of 1,024 output tokens, of which 16 must be payable', () => {
    const funds = estimateFunds(request('hello', { cache: anHour }), priced, 'default');
    expect(funds).toMatchObject({
      outputPicoUsd: 4_000_000n,
      outputTokensMin: 16,
      outputTokensWanted: 1024,
      plan: true,
    });
    // The one-hour cache write is the most expensive kind of input.
    expect(funds?.inputNanoUsd).toBe(BigInt(funds?.inputTokens ?? 0) * 2000n);
  });

  test('if part of the input can’t be counted, the model’s whole context is held', () => {
    const estimateHold = (
      content: object,
      tools: object[] = [],
      of: Model = { ...priced, contextLength: 128_000 },
    ): number => {
      const message = { case: 'message', value: { role: Role.USER, parts: [{ content }] } };
      const requested = create(GenerateRequestSchema, { items: [{ content: message }], tools } as object);
      return estimateFunds(requested, of, 'default')?.inputTokens ?? 0;
    };
    const file = (source: object): object => ({ case: 'file', value: { source: { source } } });
    const text = { case: 'text', value: { text: 'hi' } };
    expect(estimateHold(text)).toBeLessThan(100);
    expect(estimateHold(file({ case: 'base64', value: 'QUJD' }))).toBeLessThan(3_000);
    expect(estimateHold(file({ case: 'url', value: 'https://files.example/a.pdf' }))).toBe(128_000);
    expect(estimateHold(file({ case: 'fileId', value: 'file_1' }))).toBe(128_000);
    expect(estimateHold({ case: 'audio', value: { source: { source: { case: 'base64', value: 'QUJD' } } } })).toBe(
      128_000,
    );
    const search = { tool: { case: 'hosted', value: { type: 'web_fetch', json: '{}' } } };
    expect(estimateHold(text, [search])).toBe(4 * 128_000);
    expect(estimateHold(text, [search], priced)).toBe(4 * 200_000);
  });

  test('writes to a cache are held only for the lifetimes that the request asks for', () => {
    const hold = (cache: object | undefined, more: object = {}): bigint => {
      const content = {
        case: 'message',
        value: { role: Role.USER, parts: [{ content: { case: 'text', value: { text: 'hi' } }, cache }] },
      };
      const asked = create(GenerateRequestSchema, { items: [{ content }], ...more } as object);
      const { inputNanoUsd = 0n, inputTokens = 0 } = estimateFunds(asked, priced, 'default') ?? {};
      return (inputNanoUsd * 1000n) / BigInt(inputTokens);
    };
    expect(hold(undefined)).toBe(1_000_000n);
    expect(hold({})).toBe(1_250_000n);
    expect(hold(anHour)).toBe(2_000_000n);
    expect(hold({}, { cache: anHour })).toBe(2_000_000n);
  });

  test('the passes that tools of the provider may cause are held: as many as the request allows, else four, and fewer if funds are short', () => {
    const tool = (json: object, type = 'web_fetch') => ({
      tool: { case: 'hosted', value: { protocol: Protocol.MESSAGES, type, json: JSON.stringify(json) } },
    });
    const count = (tools: readonly object[], init: object = {}): number | undefined =>
      toolPasses(create(GenerateRequestSchema, { tools, ...init } as object), priced)?.count;
    expect(count([tool({ max_uses: 2 }), tool({ max_uses: 3 })])).toBe(5);
    expect(count([tool({ max_uses: 2 }), tool({})])).toBe(4);
    expect(count([tool({ max_uses: 9 })], { maxToolCalls: 6 })).toBe(6);
    expect(count([tool({ max_uses: 2 ** 40 })])).toBe(64);
    expect(count([])).toBeUndefined();
    // The client runs the first, and the second does not reach the provider, because it has no price.
    expect(
      count([tool({}, 'bash_20250124'), tool({ type: 'web_search_20250305' }, 'web_search_20250305')]),
    ).toBeUndefined();
    const passes = { count: 5, tokens: 1000 };
    const counts: (number | undefined)[] = [];
    for (
      let held: MeasuredInput | undefined = { inputTokens: 30, calls: 1, passes };
      held !== undefined;
      held = withFewerPasses(held)
    )
      counts.push(estimateFunds(request('hi'), priced, 'default', held)?.inputTokens);
    expect(counts).toEqual([5000, 2000, 1000, 30]);
  });

  test('a lower client limit lowers minimum and slice, candidates share the slice, a thinking budget raises the minimum', () => {
    expect(estimateFunds(request('hi', { maxOutputTokens: 5 }), priced, 'default')).toMatchObject({
      outputTokensMin: 5,
      outputTokensWanted: 5,
    });
    expect(estimateFunds(request('hi', { candidates: 3, maxOutputTokens: 100 }), priced, 'default')).toMatchObject({
      outputTokensMin: 16,
      outputTokensWanted: 300,
    });
    expect(estimateFunds(request('hi', { candidates: 2, maxOutputTokens: 5 }), priced, 'default')).toMatchObject({
      outputTokensMin: 10,
      outputTokensWanted: 10,
    });
    expect(estimateFunds(request('hi', { candidates: 4 }), priced, 'default')).toMatchObject({
      outputTokensMin: 16,
      outputTokensWanted: 1024,
    });
    const thinking = request('hi', { reasoning: { budgetTokens: 2000 }, maxOutputTokens: 3000 });
    expect(estimateFunds(thinking, priced, 'default')).toMatchObject({
      outputTokensMin: 2000,
      outputTokensWanted: 2000,
    });
  });

  test('a tier multiplies every price', () => {
    const standard = estimateFunds(request('hello'), priced, 'default');
    const priority = estimateFunds(request('hello'), priced, 'priority');
    const flex = estimateFunds(request('hello'), priced, 'flex');
    expect(priority?.inputNanoUsd).toBe((standard?.inputNanoUsd ?? 0n) * 2n);
    expect(priority?.outputPicoUsd).toBe(8_000_000n);
    expect(flex?.outputPicoUsd).toBe(2_000_000n);
  });

  test('a model whose prices are all 0 needs no funds; one without prices is an error', () => {
    const free = model({ pricing: { inputPicoUsd: 0n, outputPicoUsd: 0n } });
    expect(estimateFunds(request('hello'), free, 'default')).toBeUndefined();
    expect(() => estimateFunds(request('hello'), model({}), 'default')).toThrow('has no prices');
  });

  test('no usage within the estimate costs more than the hold, for any buckets, tier and price threshold', () => {
    const share = fc.double({ min: 0, max: 1, noNaN: true });
    const tier = fc.constantFrom('default', 'flex', 'priority');
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 3000 }),
        fc.array(share, { minLength: 4, maxLength: 4 }),
        fc.nat(1024),
        tier,
        (words, shares, output, requested) => {
          const funds = estimateFunds(request('word '.repeat(words), { cache: anHour }), priced, requested);
          if (funds === undefined) throw new Error('the model is priced');
          let rest = funds.inputTokens;
          const [input = 0, cacheRead = 0, cacheWrite5m = 0, cacheWrite1h = 0] = shares.map(part => {
            const tokens = Math.floor(rest * part);
            rest -= tokens;
            return tokens;
          });
          const usage = { input, cacheRead, cacheWrite5m, cacheWrite1h, output, images: 0 };
          const sheet = priceSheet(priced.pricing ?? never(), input + cacheRead + cacheWrite5m + cacheWrite1h);
          const cost = sumCost(costLines(usage, sheet, toMultiplier(priced.pricing ?? never(), requested)));
          const held = funds.inputNanoUsd + (BigInt(output) * funds.outputPicoUsd + 999n) / 1000n;
          expect(cost).toBeLessThanOrEqual(held);
        },
      ),
    );
  });
});

test('the client’s limit is lowered to the model’s', () => {
  expect(clientLimit(request('hi', { maxOutputTokens: 100_000 }), priced)).toBe(8192);
  expect(clientLimit(request('hi', { maxOutputTokens: 10 }), priced)).toBe(10);
  expect(clientLimit(request('hi'), priced)).toBeUndefined();
});

function never(): never {
  throw new Error('unreachable');
}
