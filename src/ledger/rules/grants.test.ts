import fc from 'fast-check';
import { expect, test } from 'vitest';
import { costLines, sumCost, shareLines, tokensWithin } from '../../generation/price.ts';
import type { FundsEstimate } from '../ledger.ts';
import { discounted, type Grant, computeGrant, computeMore, tokensLeft } from './grants.ts';
import type { Payers } from '../rows.ts';

const payers = fc.constantFrom<Payers[]>('money', 'plan', 'plan_money', 'money_plan');
const price = fc.constantFrom(0n, 1n, 333n, 1000n, 4_000_000n, 75_000_000n);
const estimates = fc
  .record({ inputTokens: fc.nat(2000), inputPicoUsd: price, outputPicoUsd: price, min: fc.constantFrom(0, 1, 16) })
  .map(({ inputTokens, inputPicoUsd, outputPicoUsd, min }) => ({
    inputPicoUsd,
    estimate: {
      inputTokens,
      inputNanoUsd: (BigInt(inputTokens) * inputPicoUsd + 999n) / 1000n,
      outputPicoUsd,
      outputTokensMin: min,
      outputTokensWanted: 1024,
      plan: true,
    } satisfies FundsEstimate,
  }));
const left = fc.record({ planTokens: fc.oneof(fc.constant(0), fc.nat(4000)), nanoUsd: fc.bigInt(0n, 30_000_000n) });

function granted(grant: ReturnType<typeof computeGrant>): grant is Grant {
  return !('lacks' in grant);
}

test('no payer holds more than it has, and the grant is between the minimum and the wanted number', () => {
  fc.assert(
    fc.property(estimates, left, payers, ({ estimate }, { planTokens, nanoUsd }, who) => {
      const sources = {
        payers: who,
        planTokens: who === 'money' ? 0 : planTokens,
        nanoUsd: who === 'plan' ? 0n : nanoUsd,
      };
      const grant = computeGrant(estimate, sources);
      if (!granted(grant)) return;
      const tokens = grant.tokens ?? Infinity;
      expect(grant.held <= sources.nanoUsd && grant.held >= 0n).toBe(true);
      expect(grant.planHeld <= sources.planTokens && grant.planOutput <= grant.planHeld).toBe(true);
      expect(tokens >= estimate.outputTokensMin && tokens <= 1024 && tokens >= grant.planOutput).toBe(true);
      // The grant is less than wanted only if not even one more token can be paid for.
      const rest = {
        ...sources,
        planTokens: sources.planTokens - grant.planHeld,
        nanoUsd: sources.nanoUsd - grant.held,
      };
      const hold = { ...grant, payers: who, outputPicoUsd: estimate.outputPicoUsd };
      if (tokens < 1024) expect(tokensLeft(hold, rest)).toBe(0);
    }),
  );
});

test('the hold covers every usage within the estimate, after any extensions: nothing is written off', () => {
  const usage = fc.record({ input: fc.nat(1000), write: fc.nat(1000), output: fc.nat(1000) });
  const more = fc.array(fc.record({ wanted: fc.nat(600), left }), { maxLength: 3 });
  fc.assert(
    fc.property(estimates, payers, fc.tuple(left, more), usage, (requested, who, [first, extensions], used) => {
      const { estimate, inputPicoUsd } = requested;
      const draw = ({ planTokens, nanoUsd }: typeof first) => ({
        payers: who,
        planTokens: who === 'money' ? 0 : planTokens,
        nanoUsd: who === 'plan' ? 0n : nanoUsd,
      });
      const grant = computeGrant(estimate, draw(first));
      if (!granted(grant)) return;
      let hold = { ...grant, payers: who, outputPicoUsd: estimate.outputPicoUsd };
      for (const { wanted, left: sources } of extensions) {
        const { byPlan, byMoney, nanoUsd } = computeMore(hold, wanted, draw(sources));
        const planOutput = hold.planOutput + byPlan;
        const tokens = (hold.tokens ?? 0) + byPlan + byMoney;
        hold = { ...hold, held: hold.held + nanoUsd, tokens, planHeld: hold.planHeld + byPlan, planOutput };
      }
      // Any part of the input may have come from a cache, where it costs the same or less.
      const input = Math.min(used.input, estimate.inputTokens);
      const cacheWrite5m = Math.min(used.write, estimate.inputTokens - input);
      const output = Math.min(used.output, hold.tokens ?? 0);
      const prices = { input: inputPicoUsd, cacheRead: null, cacheWrite5m: inputPicoUsd / 2n, cacheWrite1h: null };
      const sheet = { ...prices, output: estimate.outputPicoUsd, image: null };
      const buckets = { input, cacheWrite5m, output, cacheRead: 0, cacheWrite1h: 0, images: 0 };
      const lines = costLines(buckets, sheet, 1000);
      const all = input + cacheWrite5m + output;
      const planFirst = who !== 'money_plan';
      const wantedOfPlan = planFirst ? all : all - tokensWithin(lines, hold.held);
      const planTokens = who === 'money' ? 0 : Math.min(wantedOfPlan, hold.planHeld);
      const total = sumCost(shareLines(lines, { tokens: planTokens, first: planFirst }).filter(line => !line.byPlan));
      expect(total <= hold.held, `${total} of ${hold.held}, ${planTokens} of ${hold.planHeld}`).toBe(true);
    }),
    { numRuns: 2000 },
  );
});

test('a discount lowers the hold, never below the discounted cost', () => {
  fc.assert(
    fc.property(estimates, fc.nat(1000), ({ estimate }, permille) => {
      const less = discounted(estimate, permille);
      expect(less.inputNanoUsd * 1000n >= estimate.inputNanoUsd * BigInt(1000 - permille)).toBe(true);
      expect(less.outputPicoUsd * 1000n >= estimate.outputPicoUsd * BigInt(1000 - permille)).toBe(true);
      expect(less.inputNanoUsd <= estimate.inputNanoUsd && less.outputPicoUsd <= estimate.outputPicoUsd).toBe(true);
    }),
  );
});
