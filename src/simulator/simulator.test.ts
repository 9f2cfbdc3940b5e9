import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { FinishReason, type GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import { type Item, type Opaque, Role } from '../gen/tollgate/v1/content_pb.ts';
import {
  GenerateRequestSchema,
  OutputFormatType,
  ReasoningEffort,
  ServiceTier,
  ThinkingMode,
} from '../gen/tollgate/v1/request_pb.ts';
import { countInput, loadTokenizer } from '../generation/tokens.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { Validator } from '../generation/guard/validate.ts';
import { ask, askToFail, textMessage, user } from './fixtures/ask.ts';
import { createSimulator } from './simulator.ts';

const simulator = createSimulator({ tokensPerSecond: 0, steering: true });
const tokenizer = await loadTokenizer();

describe('an answer', () => {
  test('is the same for the same request, and differs for another prompt, seed or model', async () => {
    const request = { items: [user('Why is the sky blue?')], sampling: { temperature: 0 } };
    const { text } = await ask(simulator, request);
    expect((await ask(simulator, request)).text).toBe(text);
    const others = [
      await ask(simulator, { ...request, items: [user('Why is the sea blue?')] }),
      await ask(simulator, { ...request, sampling: { temperature: 0, seed: 7n } }),
      await ask(simulator, request, { model: 'sim/small' }),
    ];
    expect(new Set([text, ...others.map(other => other.text)]).size).toBe(4);
    expect(text).toContain('“Why is the sky blue?”');
  });

  test('starts once, ends once, and keeps the order of events, whatever the request', async () => {
    const tools = [{ tool: { case: 'custom', value: { name: 'note' } } } as const];
    const requests = [
      { items: [user('hi')], candidates: 3 },
      { items: [user('!sim calls=2 say=first')], tools },
      { items: [user('!sim finish=refusal')], reasoning: { effort: ReasoningEffort.LOW } },
      { items: [user('!sim tokens=0')] },
      { items: [user('!sim say=')] },
      { items: [user('hi')], maxOutputTokens: 1, reasoning: { effort: ReasoningEffort.HIGH } },
      { items: [textMessage(Role.SYSTEM, 'Be brief.')] },
    ];
    for (const request of requests) {
      const { events } = await ask(simulator, request);
      const valid: GenerationEvent[] = [];
      const validator = new Validator(valid);
      for (const event of events) validator.push(event);
      validator.end();
      expect(valid).toEqual(events);
    }
  });

  test('comes in one batch if it is short and unpaced', async () => {
    expect((await ask(simulator, { items: [user('hi')] })).batches).toHaveLength(1);
  });

  test('has the length that the prompt requests', async () => {
    const words = async (text: string): Promise<number> =>
      (await ask(simulator, { items: [user(text)] }, { model: 'sim/writer' })).text.split(/\s+/).length;
    expect(await words('Describe the moon in one word')).toBe(1);
    expect(await words('Describe the moon briefly')).toBeLessThan(15);
    const hundreds = await words('Write 300 words about the moon');
    expect(hundreds).toBeGreaterThanOrEqual(295);
    expect(hundreds).toBeLessThan(330);
  });

  test('to a prompt that requests a long text runs to the output limit, with one delta per token', async () => {
    const answer = await ask(simulator, { items: [user('Write a very long story about a lighthouse.')] });
    expect(answer.finished[0]?.reason).toBe(FinishReason.LENGTH);
    expect(answer.completed?.usage?.outputTokens).toBe(16_384);
    expect(answer.events.filter(({ event }) => event.case === 'delta')).toHaveLength(16_384);
  });

  test('ends at the output limit, by its own count of tokens', async () => {
    const answer = await ask(simulator, { items: [user('Write a very long story.')], maxOutputTokens: 50 });
    expect(answer.finished[0]).toMatchObject({ reason: FinishReason.LENGTH, native: 'length' });
    expect(answer.completed?.usage?.outputTokens).toBe(50);
    expect(tokenizer.count(answer.text)).toBe(50);
  });

  test('ends before the first stop sequence and names it', async () => {
    const items = [user('!sim say=alpha beta gamma delta')];
    const answer = await ask(simulator, { items, stop: ['delta', 'gam', 'never'] });
    expect(answer.text).toBe('alpha beta ');
    expect(answer.finished[0]).toMatchObject({ reason: FinishReason.STOP, matchedStop: 'gam' });
  });

  test('reports the requested tier', async () => {
    const items = [user('hi')];
    expect((await ask(simulator, { items })).completed?.serviceTier).toBe(ServiceTier.DEFAULT);
    expect((await ask(simulator, { items, serviceTier: ServiceTier.FLEX })).completed?.serviceTier).toBe(
      ServiceTier.FLEX,
    );
  });

  test('with several candidates interleaves them and counts the tokens of all', async () => {
    const answer = await ask(simulator, { items: [user('!sim tokens=40')], candidates: 3 });
    expect(answer.finished.map(each => each.reason)).toEqual([FinishReason.STOP, FinishReason.STOP, FinishReason.STOP]);
    expect(answer.completed?.usage?.outputTokens).toBe(120);
    const order = answer.events.filter(({ event }) => event.case === 'delta').map(({ choice }) => choice);
    expect(order.slice(0, 6)).toEqual([0, 1, 2, 0, 1, 2]);
  });

  test('of an unknown model is a 404', async () => {
    const { failure } = await askToFail(simulator, { items: [user('hi')] }, { model: 'gpt-9' });
    expect(failure).toMatchObject({ kind: 'status', facts: { status: 404 } });
  });

  test('to an input over the context length is refused quickly, with that reason', async () => {
    const start = process.cpuUsage();
    for (const text of ['word '.repeat(200_000), 'x'.repeat(20_000_000)]) {
      const { failure } = await askToFail(simulator, { items: [user(text)] });
      expect(failure).toBeInstanceOf(UpstreamFailure);
      expect(failure).toMatchObject({ kind: 'status', facts: { status: 400, meaning: 'too_long' } });
    }
    expect(process.cpuUsage(start).user / 1_000).toBeLessThan(3_000);
  });

  test('to an input that nearly fills the context ends at the context length', async () => {
    const items = [user(`${'word '.repeat(127_900)}\n!sim tokens=2000`)];
    const answer = await ask(simulator, { items });
    const { inputTokens = 0, outputTokens = 0 } = answer.completed?.usage ?? {};
    expect(inputTokens + outputTokens).toBe(128_000);
    expect(answer.finished[0]?.reason).toBe(FinishReason.CONTEXT_WINDOW);
  });
});

describe('JSON', () => {
  test('follows the schema', async () => {
    const schema = {
      type: 'object',
      properties: { name: { type: 'string' }, age: { type: 'integer', minimum: 0 } },
      required: ['name', 'age'],
      additionalProperties: false,
    };
    const outputFormat = { type: OutputFormatType.JSON_SCHEMA, name: 'person', schemaJson: JSON.stringify(schema) };
    const answer = await ask(simulator, { items: [user('Ada Lovelace is 36 years old.')], outputFormat });
    expect(JSON.parse(answer.text)).toEqual({ name: 'Ada Lovelace', age: 36 });
  });

  test('without a schema is an object', async () => {
    const outputFormat = { type: OutputFormatType.JSON_OBJECT };
    const answer = await ask(simulator, { items: [user('List whales as JSON.')], outputFormat });
    expect(JSON.parse(answer.text)).toMatchObject({ topics: ['whales', 'JSON'] });
  });
});

describe('reasoning', () => {
  test('comes only if it is requested', async () => {
    const items = [user('Prove that there are infinitely many primes.')];
    const kinds = async (reasoning: object): Promise<unknown[]> =>
      (await ask(simulator, { items, reasoning })).items.map(item => item.content.case);
    expect((await ask(simulator, { items })).items.map(item => item.content.case)).toEqual(['message']);
    expect(await kinds({})).toEqual(['message']);
    expect(await kinds({ effort: ReasoningEffort.NONE })).toEqual(['message']);
    expect(await kinds({ thinking: ThinkingMode.DISABLED })).toEqual(['message']);
    expect(await kinds({ effort: ReasoningEffort.MINIMAL })).toEqual(['reasoning', 'message']);
    expect(await kinds({ thinking: ThinkingMode.ADAPTIVE })).toEqual(['reasoning', 'message']);
    expect(await kinds({ thinking: ThinkingMode.ENABLED, budgetTokens: 1_024 })).toEqual(['reasoning', 'message']);
  });

  test('is counted within the output, and grows with the effort', async () => {
    const tokens = async (effort: ReasoningEffort): Promise<number> => {
      const { completed } = await ask(simulator, { items: [user('!sim tokens=9')], reasoning: { effort } });
      const { outputTokens = 0, reasoningTokens = 0 } = completed?.usage ?? {};
      expect(outputTokens).toBe(reasoningTokens + 9);
      return reasoningTokens;
    };
    const { MINIMAL, LOW, MEDIUM, HIGH, XHIGH } = ReasoningEffort;
    const grown = await Promise.all([MINIMAL, LOW, MEDIUM, HIGH, XHIGH].map(tokens));
    expect(grown).toEqual(grown.toSorted((a, b) => a - b));
    expect(new Set(grown).size).toBe(5);
  });

  test('leaves half of a small output limit to the answer', async () => {
    const reasoning = { effort: ReasoningEffort.XHIGH };
    const { completed } = await ask(simulator, { items: [user('!sim tokens=500')], reasoning, maxOutputTokens: 20 });
    expect(completed?.usage).toMatchObject({ outputTokens: 20, reasoningTokens: 10 });
  });

  test('is a summary if one is requested, and has no text if its display is omitted', async () => {
    const items = [user('Think.')];
    const summary = await ask(simulator, { items, reasoning: { effort: ReasoningEffort.LOW, summary: 'auto' } });
    const [item] = summary.items;
    expect(item?.content.case === 'reasoning' && item.content.value.parts[0]?.content.case).toBe('summaryText');
    const hidden = await ask(simulator, { items, reasoning: { thinking: ThinkingMode.ADAPTIVE, display: 'omitted' } });
    const [sealed] = hidden.items;
    expect(sealed?.content.case === 'reasoning' && sealed.content.value).toMatchObject({
      parts: [{ content: { value: { text: '' } } }],
      opaque: [{ kind: 'anthropic.signature', provider: 'simulator', model: 'sim/large' }],
    });
    expect(hidden.completed?.usage?.reasoningTokens).toBeGreaterThan(10);
  });

  test('is accepted if it comes back unchanged, refused if it was changed, and ignored if it is another provider’s', async () => {
    for (const reasoning of [{ effort: ReasoningEffort.LOW }, { thinking: ThinkingMode.ADAPTIVE }]) {
      const first = await ask(simulator, { items: [user('Think.')], reasoning });
      const items = [user('Think.'), ...first.items, user('Go on.')];
      expect((await ask(simulator, { items, reasoning })).finished[0]?.reason).toBe(FinishReason.STOP);
      const replayed = (change: (blob: Opaque) => void): Item[] => {
        const item = structuredClone(first.items[0]);
        if (item?.content.case !== 'reasoning') throw new Error('no reasoning');
        for (const blob of item.content.value.opaque) change(blob);
        return [user('Think.'), item, user('Go on.')];
      };
      const changed = replayed(blob => (blob.data = `A${blob.data}`));
      expect((await askToFail(simulator, { items: changed })).failure).toMatchObject({
        kind: 'status',
        facts: { status: 400 },
      });
      const foreign = replayed(blob => Object.assign(blob, { provider: 'anthropic', data: 'other' }));
      expect((await ask(simulator, { items: foreign })).finished).toHaveLength(1);
    }
  });
});

describe('log probabilities', () => {
  test('come with every token of the text, likeliest first, and add up to less than 1', async () => {
    const sampling = { logprobs: true, topLogprobs: 5 };
    const answer = await ask(simulator, { items: [user('!sim say=Blue, 蓝色 and 🦄.')], sampling });
    const deltas = answer.events.flatMap(({ event }) => (event.case === 'delta' ? [event.value] : []));
    for (const { text, logprobs } of deltas) {
      expect(logprobs.map(each => each.token)).toEqual([text]);
      const [own] = logprobs;
      const top = own?.top ?? [];
      expect(new TextDecoder().decode(own?.utf8)).toBe(text);
      expect(top[0]).toMatchObject({ token: text, logprob: own?.logprob });
      expect(new Set(top.map(each => each.token)).size).toBe(5);
      expect(top.map(each => each.logprob)).toEqual(top.map(each => each.logprob).toSorted((a, b) => b - a));
      expect(top.reduce((sum, each) => sum + Math.exp(each.logprob), 0)).toBeLessThan(1);
    }
    expect(deltas.map(each => each.text).join('')).toBe('Blue, 蓝色 and 🦄.');
    expect(
      (await ask(simulator, { items: [user('hi')] })).events.every(
        ({ event }) => event.case !== 'delta' || event.value.logprobs.length === 0,
      ),
    ).toBe(true);
  });

  test('have no alternatives if none are requested', async () => {
    const answer = await ask(simulator, { items: [user('hi')], sampling: { logprobs: true } });
    const delta = answer.events.find(({ event }) => event.case === 'delta')?.event;
    expect(delta?.case === 'delta' && delta.value.logprobs[0]?.top).toEqual([]);
  });
});

test('the reported usage is what countTokens and the tokenizer count', async () => {
  const request = { items: [user('How many tokens are these? 多少?')], instructions: 'Count.' };
  const answer = await ask(simulator, { ...request });
  const { signal } = new AbortController();
  const counted = await simulator.countTokens?.(create(GenerateRequestSchema, request), 'sim/large', signal);
  expect(answer.completed?.usage?.inputTokens).toBe(counted);
  expect(countInput(create(GenerateRequestSchema, request), tokenizer)).toBe(counted);
  expect(answer.completed?.usage?.outputTokens).toBe(tokenizer.count(answer.text));
});
