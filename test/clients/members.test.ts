/** Every member of the official clients' types has a place in the table of prices, so that an update of a client can't bring one that costs and that nobody pays. */
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/codecs/codec.ts';
import { findPriced } from '../../src/generation/priced-features.ts';
import { findRefused, isPricedBeta } from '../../src/upstreams/withheld-features.ts';
import { free, priced, refused, values } from './member-types/table.ts';
import { type Members, walkMembers } from './member-types/walk.ts';

/** Returns what the table lacks: members ("openai embeddings.user") and values ("openai speed=fast"). */
function findUnlisted(clients: ReadonlyMap<string, Members>): string[] {
  const unlisted: string[] = [];
  for (const [client, members] of clients) {
    for (const [name, { places, values: texts }] of members) {
      const isListed = classesOf(client, name).length > 0;
      if (!isListed) unlisted.push(...[...places].map(place => `${client} ${place}.${name}`));
      for (const text of texts) if (values[name]?.has(text) === false) unlisted.push(`${client} ${name}=${text}`);
    }
  }
  return unlisted;
}

function classesOf(client: string, name: string): string[] {
  const by = Object.keys(priced).filter(each => priced[each]?.has(name) === true);
  return [...by, ...(refused.has(name) ? ['refused'] : []), ...(free[client]?.has(name) === true ? ['free'] : [])];
}

describe('the types of the official clients', () => {
  const clients = walkMembers();

  test('have no member and no value of a price-selecting member that the table lacks', () => {
    expect(findUnlisted(clients)).toEqual([]);
    expect([...clients].map(([name, { size }]) => [name, size > 200])).toEqual([
      ['openai', true],
      ['anthropic', true],
      ['google', true],
    ]);
  });

  test('have no member in two classes', () => {
    const twice = [...clients].flatMap(([client, members]) =>
      [...members.keys()].filter(name => classesOf(client, name).length > 1),
    );
    expect(twice).toEqual([]);
  });

  test('lack no word of the table, so that it has no dead ones', () => {
    const names = new Set([...clients.values()].flatMap(members => [...members.keys()]));
    const listed = [...Object.values(priced), refused, ...Object.values(free)].flatMap(each => [...each]);
    expect(listed.filter(name => !names.has(name))).toEqual([]);
  });
});

/** A change of a file of types, as an update of a client could bring it, and what the table then lacks. */
interface Update {
  readonly file: string;
  readonly before: RegExp;
  readonly after: string;
  readonly unlisted: string;
}
const beta = '@anthropic-ai/sdk/resources/beta/messages/messages';
const updates: readonly Update[] = [
  {
    file: 'openai/resources/embeddings',
    before: /encoding_format\?:/,
    after: "turbo_lane?: 'x'; encoding_format?:",
    unlisted: 'openai EmbeddingCreateParams.turbo_lane',
  },
  {
    file: 'openai/resources/completions',
    before: /completion_tokens: number;/,
    after: 'completion_tokens: number; quantum_tokens: number;',
    unlisted: 'openai CompletionUsage.quantum_tokens',
  },
  {
    file: beta,
    before: /speed\?: 'standard' \| 'fast'/g,
    after: "speed?: 'standard' | 'fast' | 'warp'",
    unlisted: 'anthropic speed=warp',
  },
  {
    file: beta,
    before: /type: 'web_search_20260318';/g,
    after: "type: 'web_search_20270101';",
    unlisted: 'anthropic type=web_search_20270101',
  },
];

test.each(updates)('an update that brings $unlisted fails the test', ({ file, before, after, unlisted }) => {
  const edited = walkMembers((path, text) => (path.includes(`${file}.d.`) ? text.replace(before, after) : text));
  expect(findUnlisted(edited)).toEqual([unlisted]);
});

/** Refused members that never reach a provider for another reason than a list: the interface has none, or only the gateway writes them. */
const notSent = new Set(['thread', 'voice', 'memory_limit', 'bill_to', 'svg_usage', 'audio_tokens', 'retrieval']);

test('what the table calls refused is refused by the lists of the gateway', () => {
  const sent = [...refused].filter(name => !notSent.has(name));
  const isHeld = (body: JsonObject): boolean => findRefused(body) !== undefined || findPriced(body).length > 0;
  const snake = (name: string): string => name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`);
  const passed = sent
    .flatMap(name => [name, snake(name)])
    .filter(name => {
      const holders: JsonObject[] = [
        { [name]: 7 },
        { generationConfig: { [name]: 7 } },
        { generation_config: { [name]: 7 } },
      ];
      return !holders.some(isHeld);
    });
  expect(passed).toEqual([]);
});

test('the tools that cost by the call are found by their types, and the betas that change a price by their names', () => {
  const paid = [...(values['type'] ?? [])].filter(type => findPriced({ tools: [{ type }] }).length > 0);
  const tools = paid.filter(type => !/result|output|completed|partial|message|_call$/.test(type));
  expect(tools.map(type => type.replace(/_20\d\d.*$/, '')).filter((type, at, all) => all.indexOf(type) === at)).toEqual(
    [
      'advisor',
      'code_execution',
      'code_interpreter',
      'file_search',
      'image_generation',
      'web_search',
      'web_search_preview',
    ],
  );
  expect([...(values['betas'] ?? [])].filter(isPricedBeta)).toMatchInlineSnapshot(`
    [
      "advisor-tool-2026-03-01",
      "context-1m-2025-08-07",
      "fallback-credit-2026-06-01",
      "fallback-credit-2026-07-01",
      "fast-mode-2026-02-01",
      "user-profiles-billing-2026-10-01",
    ]
  `);
});
