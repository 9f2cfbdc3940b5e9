/** `tollgate connect`: the settings of clients, their backups, and the test call. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { parse } from 'yaml';
import { runInside } from '../cli/run-inside.ts';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

let gateway: Gateway;
let home = '';
beforeAll(async () => {
  gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n' });
  // HOME of the command.
  home = gateway.home.folder;
});
afterAll(() => endGateway(gateway));
beforeEach(() => {
  for (const name of ['.claude', '.codex', '.config', '.gemini', '.qwen', '.continue']) {
    rmSync(join(home, name), { recursive: true, force: true });
  }
});

const connect = (...args: string[]) => runInside(gateway, ['connect', ...args]);
const keys = async (client: string) =>
  (await gateway.admin.listApiKeys({ accountId: 1n })).keys.filter(({ label }) => label === `connect: ${client}`);
const read = (path: string): string => readFileSync(join(home, path), 'utf8');
function write(path: string, text: string): void {
  mkdirSync(dirname(join(home, path)), { recursive: true });
  writeFileSync(join(home, path), text);
}

/** Each client's settings file: what else may be in it (`own`), and how a test finds the address, key, model and the kept setting in it (`find`). */
const clients = [
  {
    name: 'claude-code',
    path: '.claude/settings.json',
    own: '{ "env": { "EDITOR": "vi" }, "model": "opus" }',
    find: (text: string) => {
      const { env, model } = JSON.parse(text) as { env: Record<string, string>; model?: string };
      return [env['ANTHROPIC_BASE_URL'], env['ANTHROPIC_AUTH_TOKEN'], env['ANTHROPIC_MODEL'], env['EDITOR'] ?? model];
    },
    kept: 'vi',
    suffix: '',
    requested: '/v1/messages',
  },
  {
    name: 'codex',
    path: '.codex/config.toml',
    own: '# mine\nmodel = "gpt-5"\napproval_policy = "never"\n\n[model_providers.other]\nname = "other"\nbase_url = "http://x"\n',
    find: (text: string) => [
      /\[model_providers\.tollgate\][^[]*base_url = "(.*)"/.exec(text)?.[1],
      /experimental_bearer_token = "(.*)"/.exec(text)?.[1],
      /^model = "(.*)"\nmodel_provider = "tollgate"/.exec(text)?.[1],
      /^approval_policy = "(.*)"[^[]*\n\[model_providers\.other\]/m.exec(text)?.[1],
    ],
    kept: 'never',
    suffix: '/v1',
    requested: '/v1/responses',
  },
  {
    name: 'opencode',
    path: '.config/opencode/opencode.json',
    own: '{ "theme": "dark", "provider": { "other": { "name": "x" } } }',
    find: (text: string) => {
      const { provider, model, theme } = JSON.parse(text) as {
        provider: { tollgate: { options: { baseURL: string; apiKey: string } } };
        model: string;
        theme?: string;
      };
      return [
        provider.tollgate.options.baseURL,
        provider.tollgate.options.apiKey,
        model.replace('tollgate/', ''),
        theme,
      ];
    },
    kept: 'dark',
    suffix: '/v1',
    requested: '/v1/chat/completions',
  },
  {
    name: 'gemini-cli',
    path: '.gemini/.env',
    own: 'GEMINI_API_KEY=old\nTHEME=dark\n',
    find: (text: string) =>
      ['GOOGLE_GEMINI_BASE_URL', 'GEMINI_API_KEY', 'GEMINI_MODEL', 'THEME'].map(
        name => new RegExp(`^${name}=(.*)$`, 'm').exec(text)?.[1],
      ),
    kept: 'dark',
    suffix: '',
    requested: '/v1beta/models/sim/large:generateContent',
  },
  {
    name: 'qwen-code',
    path: '.qwen/.env',
    own: 'OPENAI_API_KEY=old\nTHEME=dark\n',
    find: (text: string) =>
      ['BASE_URL', 'API_KEY', 'MODEL']
        .map(name => new RegExp(`^OPENAI_${name}=(.*)$`, 'm').exec(text)?.[1])
        .concat(/^THEME=(.*)$/m.exec(text)?.[1]),
    kept: 'dark',
    suffix: '/v1',
    requested: '/v1/chat/completions',
  },
  {
    name: 'continue',
    path: '.continue/config.yaml',
    own: '# mine\nname: Mine\nversion: 1.0.0\nschema: v1\nmodels:\n  - { name: Other, provider: openai, model: x }\n',
    find: (text: string) => {
      const { models, name } = parse(text) as { models: Record<string, string>[]; name: string };
      return [models[0]?.['apiBase'], models[0]?.['apiKey'], models[0]?.['model'], models[1]?.['name'] ?? name];
    },
    kept: 'Other',
    suffix: '/v1',
    requested: '/v1/chat/completions',
  },
] as const;

test.each(clients)(
  '$name: the file is backed up, the gateway is added to its settings, and a test call is made',
  async client => {
    const { name, path, own, find, kept, suffix, requested } = client;
    write(path, own);
    const { code, stdout, stderr } = await connect(name, '--model', 'sim/large');
    expect([code, stderr]).toEqual([0, '']);
    const [url, key = '', model, other] = find(read(path));
    expect([url, model, other]).toEqual([gateway.url + suffix, 'sim/large', kept]);
    expect(key).toMatch(/^sk-tg-\w{43}$/);
    expect(read(`${path}.before-tollgate`)).toBe(own);
    expect(statSync(join(home, path)).mode & 0o777).toBe(0o600);
    expect(stdout).toMatch(
      new RegExp(`^Test call: POST ${gateway.url}${requested} with sim/large: 200, ".+", \\$0\\.\\d+$`, 'm'),
    );
    expect(await keys(name)).toHaveLength(1);

    // A second run keeps the first backup, and revokes the key of the first run.
    expect((await connect(name, '--model', 'sim/small')).code).toBe(0);
    expect(find(read(path))[2]).toBe('sim/small');
    expect(find(read(path))[3]).toBe(kept);
    expect(read(`${path}.before-tollgate`)).toBe(own);
    expect(await keys(name)).toHaveLength(1);

    const undone = await connect(name, '--undo');
    expect([undone.code, undone.stdout]).toEqual([0, expect.stringContaining('1 key revoked')]);
    expect(read(path)).toBe(own);
    expect(existsSync(join(home, `${path}.before-tollgate`))).toBe(false);
    expect(await keys(name)).toEqual([]);
  },
);

test.each(clients)(
  '$name: --undo removes a file that was not there before; a second --undo changes nothing',
  async client => {
    const { name, path, find, suffix } = client;
    expect((await connect(name)).code).toBe(0);
    expect(find(read(path))[0]).toBe(gateway.url + suffix);
    expect((await connect(name, '--undo')).code).toBe(0);
    expect(existsSync(join(home, path))).toBe(false);
    const again = await connect(name, '--undo');
    expect([again.code, again.stdout]).toEqual([0, expect.stringContaining('was not changed by connect')]);
  },
);

test.each([...clients.map(({ name }) => name), 'aider', 'cline', 'cursor'])(
  '%s: --print shows what would be written, but changes nothing and makes no key',
  async name => {
    const before = readdirSync(home);
    const { code, stdout } = await connect(name, '--print', '--model', 'sim/large', '--url', 'https://gate.example');
    expect(code).toBe(0);
    expect(stdout).toContain('https://gate.example');
    expect(stdout).toContain('YOUR_TOLLGATE_API_KEY');
    expect(stdout).toContain('sim/large');
    expect(readdirSync(home)).toEqual(before);
    expect(await keys(name)).toEqual([]);
  },
);

test.each([
  ['claude-code', '.claude/settings.json', '{ // mine\n}'],
  ['continue', '.continue/config.yaml', 'a: [b'],
] as const)('%s: a file that can’t be read stays as it is, and no key is made', async (name, path, own) => {
  write(path, own);
  const { code, stderr } = await connect(name);
  expect([code, stderr]).toEqual([1, expect.stringContaining('was not changed')]);
  expect(stderr).toContain(join(home, path));
  expect(read(path)).toBe(own);
  expect(await keys(name)).toEqual([]);
});

test('if the test call fails, the command prints why, and how to undo', async () => {
  const { code, stderr } = await connect('claude-code', '--key', `sk-tg-${'0'.repeat(43)}`);
  expect(code).toBe(1);
  expect(stderr).toMatch(/Test call: POST \S+ with \S+: 401, The API key is malformed, unknown/);
  expect(stderr).toContain('npx tollgate connect claude-code --undo');
  expect((await connect('claude-code', '--url', 'http://127.0.0.1:9')).stderr).toContain('no answer');
  await connect('claude-code', '--undo');
});

test('an unknown client is a usage error that lists the known clients', async () => {
  const { code, stderr } = await gateway.cli(['connect', 'notepad']);
  expect([code, stderr]).toEqual([2, expect.stringContaining('claude-code or codex or opencode')]);
});
