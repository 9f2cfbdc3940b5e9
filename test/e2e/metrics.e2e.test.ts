/** Prometheus accepts the text of `/metrics`; it has the metrics that the documents list and that the alerts and the dashboard query. */
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { endGateway, type Gateway, isOnPostgres, makeHome, root } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { RawUpstream, whole } from '../upstreams/raw-upstream.ts';
import { type Family, lint, readPage, readQuery } from './exposition.ts';

const upstream = await RawUpstream.start(socket => void socket.write(whole(401, '{"error":{"message":"no"}}')));
const answer = {
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 9, completion_tokens: 2 },
  // Dearer than what was requested.
  service_tier: 'priority',
};
const priced = await RawUpstream.start(socket => void socket.write(whole(200, JSON.stringify(answer))));
const byText = (one: unknown, other: unknown): number => (String(one) < String(other) ? -1 : 1);

let gateway: Gateway;
let page: string;
let families: Map<string, Family>;
beforeAll(async () => {
  const home = makeHome();
  // On PostgreSQL there are no column files.
  if (!isOnPostgres) {
    const columns = join(home.dataDir, 'columns', '7');
    mkdirSync(columns, { recursive: true });
    writeFileSync(join(columns, '1-2-a.columns'), Buffer.alloc(3000));
    writeFileSync(join(columns, '2-3-b.columns'), Buffer.alloc(400));
  }
  gateway = await startGateway({
    home,
    config: `
providers:
  up: { protocol: chat, base_url: "${upstream.baseUrl}", api_key: sk-up-0000000001 }
  priced: { protocol: chat, base_url: "${priced.baseUrl}" }
models:
  - { id: acme/refused, pricing: { input: 1, output: 1 }, routes: [{ provider: up, model: m }] }
  - { id: acme/priced, pricing: { input: 1, output: 1 }, routes: [{ provider: priced, model: p, cost: { input: 3, output: 3 } }] }
`,
  });
  const ask = (path: string, body: object) =>
    fetch(gateway.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }).then(response => response.arrayBuffer());
  const messages = [{ role: 'user', content: 'Say hello.\n!sim tps=0' }];
  await ask('/v1/chat/completions', { model: 'sim/large', messages });
  await ask('/v1/chat/completions', { model: 'sim/large', messages, stream: true });
  await ask('/v1/chat/completions', { model: 'acme/refused', messages });
  await ask('/v1/chat/completions', { model: 'acme/priced', messages });
  for (let each = 0; each < 50; each += 1) {
    await ask(`/v1/guess/${each}`, {});
    await ask('/v1/chat/completions', { model: `guess/${each}`, messages });
  }
  page = await (await fetch(`${gateway.rpcUrl}/metrics`)).text();
  families = readPage(page);
  // A gateway on PostgreSQL has no ledger files to measure, so this family has no samples. Its label is added by hand, because the documents and queries name it.
  const files = families.get('tollgate_file_bytes');
  if (isOnPostgres && files !== undefined) {
    expect([...files.labels]).toEqual([]);
    families.set('tollgate_file_bytes', { ...files, labels: new Set(['file']) });
  }
});
afterAll(async () => {
  await endGateway(gateway);
  await upstream.stop();
  await priced.stop();
});

test('Prometheus accepts the page', () => {
  expect(lint(families)).toEqual([]);
});

test('the checks find a bad page and a bad query', () => {
  const bad = '# HELP a_ms x\n# TYPE a_ms counter\na_ms{l="1"} 1\na_ms{l="1"} 2\n';
  expect(lint(readPage(bad))).toEqual([
    'a_ms: a counter must end in _total, and nothing else may',
    'a_ms: not a base unit',
    'a_ms: a series twice',
  ]);
  expect(() => readPage('b 1\n')).toThrow('no type before b 1');
  expect(() => readQuery('sum(rate(x[5m])')).toThrow('not PromQL');
});

test.skipIf(isOnPostgres)('the databases and the column files are measured', () => {
  const sizes = families.get('tollgate_file_bytes')?.samples.map(({ labels, value }) => [labels['file'], value]);
  const some: unknown = expect.any(Number);
  expect(sizes?.toSorted(byText)).toEqual([
    ['columns', 3400],
    ['content', some],
    ['content_wal', some],
    ['ledger', some],
    ['ledger_wal', some],
  ]);
});

test('labels are bounded: unknown paths and models get the label `other`', () => {
  const values = (name: string): Set<string | undefined> =>
    new Set(families.get('tollgate_requests_total')?.samples.map(({ labels }) => labels[name]));
  expect(values('endpoint')).toEqual(new Set(['/v1/chat/completions', 'other']));
  expect(values('model')).toEqual(new Set(['sim/large', 'acme/refused', 'acme/priced', 'other', '']));
  expect(page).not.toContain('guess');
  expect(page.split('\n').filter(line => line.startsWith('tollgate_requests_total'))).toHaveLength(5);
});

test('docs/operations.md lists exactly the metrics that exist, with their types and labels', () => {
  const rows = readFileSync(join(root, 'docs/operations.md'), 'utf8').matchAll(/^\| `(\w+)` \| (\w+) \| (.+?) \|/gm);
  const documented = Array.from(rows, ([, name = '', type = '', labels = '']) => [
    name,
    type,
    [...labels.matchAll(/`(\w+)`/g)].map(([, label]) => label).toSorted(byText),
  ]);
  const real = [...families].map(([name, { type, labels }]) => [name, type, [...labels].toSorted(byText)]);
  expect(documented.toSorted(byText)).toEqual(real.toSorted(byText));
});

test('the page has every metric of the source, so none is forgotten in the list that it is made from', () => {
  const sources = globSync('src/**/*.ts', { cwd: root }).map(path => readFileSync(join(root, path), 'utf8'));
  const names = sources.flatMap(text =>
    Array.from(text.matchAll(/\bname: '(tollgate_\w+)'/g), ([, name = '']) => name),
  );
  expect(names.length).toBeGreaterThan(25);
  expect(names.filter(name => !families.has(name))).toEqual([]);
});

const queryLabels = new Set(['le', 'job', 'instance']);

/** Expects that a query uses only existing metrics and labels. */
function expectAnswerable(query: string): void {
  const { metrics, labels } = readQuery(query);
  expect([query, metrics.length > 0]).toEqual([query, true]);
  const known = metrics.map(name => {
    const family = families.get(name) ?? families.get(name.replace(/_(?:bucket|sum|count)$/, ''));
    return family ?? expect.fail(`${name} is not a metric: ${query}`);
  });
  for (const label of labels) {
    const isKnown = queryLabels.has(label) || known.some(family => family.labels.has(label));
    expect([query, label, isKnown]).toEqual([query, label, true]);
  }
}

describe('alert rules', () => {
  interface Rule {
    readonly alert: string;
    readonly expr: string;
    readonly for: string;
    readonly annotations: { readonly summary: string };
  }
  const { groups } = parse(readFileSync(join(root, 'docs/alerts.yaml'), 'utf8')) as {
    groups: { name: string; rules: Rule[] }[];
  };
  const rules = groups.flatMap(group => group.rules);

  test.each(rules.map(rule => [rule.alert, rule] as const))('%s uses metrics that exist', (_, rule) => {
    expectAnswerable(rule.expr);
    expect([rule.for, rule.annotations.summary]).toEqual([
      expect.stringMatching(/^\d+m$/),
      expect.stringMatching(/\.$/),
    ]);
  });

  test('have different names', () => {
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
  });
});

describe('the dashboard', () => {
  interface Panel {
    readonly id: number;
    readonly title: string;
    readonly targets: readonly { readonly expr: string; readonly legendFormat: string }[];
  }
  const { panels } = JSON.parse(readFileSync(join(root, 'docs/grafana-dashboard.json'), 'utf8')) as { panels: Panel[] };

  test.each(panels.map(panel => [panel.title, panel] as const))('%s uses metrics that exist', (_, { targets }) => {
    for (const { expr, legendFormat } of targets) {
      expectAnswerable(expr);
      const { labels } = readQuery(expr);
      for (const [, label = ''] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) expect(labels).toContain(label);
    }
  });

  test('shows every metric of the gateway except the duration of attempts', () => {
    const shown = new Set(
      panels
        .flatMap(({ targets }) => targets.flatMap(({ expr }) => readQuery(expr).metrics))
        .map(name => name.replace(/_(?:bucket|sum|count)$/, '')),
    );
    const missing = [...families.keys()].filter(name => !shown.has(name));
    expect(missing).toEqual(['tollgate_upstream_attempt_duration_seconds']);
  });
});
