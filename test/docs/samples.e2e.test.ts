/** Runs the samples in the documents that need a provider, an agent or a file. `commands.e2e.test.ts` runs all others. */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseConfig } from '../../src/config/config.ts';
import { ConfigError } from '../../src/config/config-error.ts';
import { type Ended, endGateway, type Gateway, gatewayEnvironment, root, run } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { writePrograms } from './programs.ts';

const read = (page: string): string => readFileSync(join(root, page), 'utf8');
/** Returns the code blocks of a page in a language. */
const readBlocks = (page: string, language: string): string[] =>
  Array.from(read(page).matchAll(new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\``, 'gm')), ([, block = '']) => block);
/** Returns the indented lines of a page that begin with a command. */
const readIndented = (page: string): string[] =>
  Array.from(read(page).matchAll(/^ {4}(npx tollgate .*)$/gm), ([, command = '']) => command);

/** The provider that the README calls OpenAI: another gateway that lists `gpt-5`. */
let provider: Gateway;
let gateway: Gateway;
let folder: string;
let environment: Record<string, string>;
beforeAll(async () => {
  provider = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\naliases: { gpt-5: sim/large }\n' });
  gateway = await startGateway({
    config: `
providers:
  openai: { protocol: responses, base_url: "${provider.url}/v1", api_key: "${provider.apiKey}" }
models:
  - { id: openai/gpt-5, context_length: 400000, pricing: { input: 1.25, output: 10 }, routes: [{ provider: openai, model: gpt-5 }] }
`,
  });
  folder = mkdtempSync(join(tmpdir(), 'tollgate-samples-'));
  // This agent calls the gateway and the model in its environment variables.
  const bin = writePrograms(folder, {
    claude: `exec curl --fail-with-body -s "$ANTHROPIC_BASE_URL/v1/messages" -H "Authorization: Bearer $ANTHROPIC_AUTH_TOKEN" -H 'Content-Type: application/json' -d "{\\"model\\": \\"$ANTHROPIC_MODEL\\", \\"max_tokens\\": 20, \\"messages\\": [{\\"role\\": \\"user\\", \\"content\\": \\"$2\\"}]}"`,
  });
  environment = gatewayEnvironment(gateway.home, {
    PATH: `${bin}:${process.env['PATH'] ?? ''}`,
    TOLLGATE_PORT: new URL(gateway.url).port,
    TOLLGATE_RPC_PORT: new URL(gateway.rpcUrl).port,
    API_KEY: gateway.apiKey,
  });
});
afterAll(async () => {
  await endGateway(gateway);
  await endGateway(provider);
});

function runShell(command: string): Promise<Ended> {
  const here = command.replaceAll('http://127.0.0.1:8080', gateway.url).replace(/^curl /, 'curl -sS --fail-with-body ');
  return run(['bash', '-c', here], { cwd: folder, env: environment }).ended;
}

test('the README’s commands for a real provider list, test and call its model', { timeout: 60_000 }, async () => {
  const [block = ''] = readBlocks('README.md', 'sh');
  const [variable, start, ...commands] = block.trim().split('\n');
  expect([variable?.split('=')[0], start, commands.length]).toEqual(['export OPENAI_API_KEY', 'npm start', 3]);
  const ends = [];
  for (const command of commands) ends.push(await runShell(command));
  expect(ends.map(({ code, stderr }) => [code, stderr])).toEqual(Array(3).fill([0, '']));
  expect(ends[0]?.stdout).toMatch(/^openai\/gpt-5 /m);
  expect(JSON.parse(ends[2]?.stdout ?? '')).toMatchObject({ object: 'response', status: 'completed' });
});

test.each(
  ['README.md', 'docs/clients.md'].flatMap(page =>
    readIndented(page)
      .filter(command => command.includes(' -- claude '))
      .map(command => [page, command] as const),
  ),
)('%s: %s', { timeout: 60_000 }, async (_, command) => {
  const { code, stdout, stderr } = await runShell(command);
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { type: 'message', role: 'assistant' }]);
  // The costs by model.
  expect(stderr).toMatch(/\$0\.\d+/);
});

test('the commands that show providers and routes run', { timeout: 60_000 }, async () => {
  const commands = readIndented('docs/operations.md').filter(command => !/[A-Z]{2}|\[/.test(command));
  expect(commands.length).toBe(2);
  for (const command of commands) {
    const { code, stdout, stderr } = await runShell(command);
    expect([code, stderr, stdout === '']).toEqual([0, '', false]);
  }
});

describe('samples of YAML', () => {
  const variables = {
    OPENAI_API_KEY: 'a',
    OPENAI_API_KEY_2: 'b',
    ANTHROPIC_API_KEY: 'c',
    OLLAMA_HOST: '127.0.0.1:11434',
    AZURE_OPENAI_ENDPOINT: 'https://me.example',
    AZURE_OPENAI_API_KEY: 'd',
  };
  const samples = readBlocks('docs/providers.md', 'yaml');

  test('docs/providers.md has them', () => {
    expect(samples.length).toBe(4);
  });

  test.each(samples.entries().toArray())('number %i of docs/providers.md is a valid configuration', (_, sample) => {
    const config = parseConfig('', sample, { variables, builtInIds: [] });
    expect(config.models.length + config.discovered.length).toBeGreaterThan(0);
  });

  test('of docs/operations.md is applied, and changes nothing the second time', { timeout: 60_000 }, async () => {
    const [sample = ''] = readBlocks('docs/operations.md', 'yaml');
    writeFileSync(join(folder, 'accounts.yaml'), sample);
    const first = await runShell('tollgate apply accounts.yaml --secrets secrets.json --json');
    expect([first.code, first.stderr]).toEqual([0, '']);
    const again = await runShell('tollgate apply accounts.yaml --secrets secrets.json --json');
    expect([again.code, again.stderr, JSON.parse(again.stdout)]).toEqual([0, '', { data: [], applied: true }]);
  });
});

test('the errors in docs/configuration.md are those that the described mistakes in its sample cause', () => {
  const [sample = ''] = readBlocks('docs/configuration.md', 'yaml');
  const shown = Array.from(read('docs/configuration.md').matchAll(/^ {4}tollgate\.yaml:(\d+): (.*)$/gm));
  const wrong = sample.replace(', output: 10', '').replace('provider: local', 'provider: locl');
  let lines: readonly string[] = [];
  try {
    parseConfig('tollgate.yaml', wrong, { variables: { LOCAL_KEY: 'a' }, builtInIds: [] });
  } catch (error) {
    if (error instanceof ConfigError) ({ lines } = error);
  }
  expect(lines).toEqual(shown.map(([line]) => line.trim()));
});
