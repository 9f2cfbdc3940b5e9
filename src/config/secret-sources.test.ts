import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseConfig } from './config.ts';
import { ConfigError } from './config-error.ts';
import { readEnvironment, type Variables } from './env.ts';
import { hashSecret } from './secret-sources.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-secrets-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function put(name: string, text: string): string {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
}

const config = (text: string, variables: Variables = {}) =>
  parseConfig(join(folder, 't.yaml'), text, { variables, builtInIds: [] });
const keysIn = (text: string, variables: Variables = {}) =>
  config(text, variables).providers.map(({ apiKeys }) => apiKeys.map(key => key.reveal()));

function problems(read: () => unknown): readonly string[] {
  try {
    read();
  } catch (error) {
    if (error instanceof ConfigError) return error.lines;
    throw error;
  }
  return [];
}

const provider = (rest: string): string => `providers:\n  p: { protocol: chat, base_url: "http://x", ${rest} }\n`;

test('a provider’s keys are the lines of its api_key_file, which is relative to the configuration', () => {
  put('one.key', 'first\n\n  second \n');
  expect(keysIn(provider('api_key_file: one.key'))).toEqual([['first', 'second']]);
  expect(keysIn(provider(`api_key_file: "${join(folder, 'one.key')}"`))).toEqual([['first', 'second']]);
  expect(config(provider('api_key_file: one.key')).secretSources).toEqual([
    { path: join(folder, 'one.key'), sha256: hashSecret(Buffer.from('first\n\n  second \n')) },
  ]);
});

test('a variable of the configuration, or of a preset, may be in a file that `NAME_FILE` names', () => {
  const path = put('two.key', ' sk-canary\n');
  expect(keysIn(provider('api_key: "${UP_KEY}"'), { UP_KEY_FILE: path })).toEqual([['sk-canary']]);
  const preset = config('', { OPENAI_API_KEY_FILE: path });
  expect(preset.providers.map(({ name, apiKeys }) => [name, apiKeys.map(key => key.reveal())])).toEqual([
    ['openai', ['sk-canary']],
  ]);
  expect(preset.secretSources?.map(source => source.path)).toEqual([path]);
  // Other programs have variables of such names.
  expect(config('', { SSL_CERT_FILE: '/nowhere' }).secretSources).toBeUndefined();
});

test('bootstrap variables and proxies may be in files', () => {
  const { bootstrap, proxy } = readEnvironment({
    TOLLGATE_BOOTSTRAP_API_KEY_FILE: put('api', 'sk-tg-abcdefghijklmnopqr\n'),
    TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY_FILE: put('management', 'mk-tg-abcdefghijklmnopqr'),
    TOLLGATE_BOOTSTRAP_BALANCE_FILE: put('balance', '2.5\n'),
    TOLLGATE_BOOTSTRAP_FILE: '/run/keys',
    HTTPS_PROXY_FILE: put('proxy', 'http://me:canary@proxy:3128'),
  });
  expect(bootstrap.apiKey?.reveal()).toBe('sk-tg-abcdefghijklmnopqr');
  expect(bootstrap.managementKey?.reveal()).toBe('mk-tg-abcdefghijklmnopqr');
  expect([bootstrap.balanceNanoUsd, bootstrap.file]).toEqual([2_500_000_000n, '/run/keys']);
  expect(proxy.httpsProxy).toBe('http://me:canary@proxy:3128/');
});

test('the error of a bad secret file says what is wrong, without the secret', () => {
  const path = put('bad.key', 'sk-canary ü');
  const empty = put('empty.key', '\n');
  const cases: (readonly [() => unknown, string])[] = [
    [
      () => config('', { OPENAI_API_KEY: 'a', OPENAI_API_KEY_FILE: path }),
      'OPENAI_API_KEY_FILE: is set together with OPENAI_API_KEY: unset one of them',
    ],
    [
      () => config('', { OPENAI_API_KEY_FILE: 'canary-of-a-mistake' }),
      'OPENAI_API_KEY_FILE: names a file that does not exist',
    ],
    [() => config('', { OPENAI_API_KEY_FILE: empty }), 'OPENAI_API_KEY_FILE: names a file that is empty'],
    [
      () => config('', { OPENAI_API_KEY_FILE: path }),
      'OPENAI_API_KEY: has a character that no key can have: a line break, or one that is not ASCII',
    ],
    [
      () => config(provider('api_key_file: canary')),
      `${folder}/t.yaml:2: providers.p.api_key_file: names a file that does not exist`,
    ],
    [
      () => config(provider('api_key_file: empty.key')),
      `${folder}/t.yaml:2: providers.p.api_key_file: names a file that is empty; it needs one key per line`,
    ],
    [
      () => config(provider('api_key_file: bad.key')),
      `${folder}/t.yaml:2: providers.p.api_key_file: names a file with a character that no key can have`,
    ],
    [
      () => config(provider('api_key: a, api_key_file: one.key')),
      `${folder}/t.yaml:2: providers.p.api_key_file: is set together with api_key; keep one of them`,
    ],
    [
      () => readEnvironment({ TOLLGATE_BOOTSTRAP_API_KEY_FILE: path }),
      'TOLLGATE_BOOTSTRAP_API_KEY: must begin with sk-tg-',
    ],
  ];
  for (const [read, line] of cases) {
    expect(problems(read)).toEqual([line]);
    expect(line).not.toContain('canary');
  }
});
