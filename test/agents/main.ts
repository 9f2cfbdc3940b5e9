/**
 * `npm run test:agents [AGENT…]`: installs Claude Code, Codex, opencode and Python clients (`python`, or `python:openai` for one of them) and runs conversations with the built-in models and with a second gateway as a Chat, a Responses and a Messages
 * upstream. Prints a line for each; what was refused goes to `test/agents/refused`. Exits 1 if one failed. Run it by hand: it takes minutes and 1 GB.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import process from 'node:process';
import { conversations } from './conversations.ts';
import { pythonClients, runPython } from './python.ts';
import { type RunningGateway, startGateway } from './place.ts';
import { Recorder, type Refusal } from './recorder.ts';

const folder = import.meta.dirname;
const refusedFolder = resolve(folder, 'refused');

const pace = 'simulator: { tokens_per_second: 0 }\n';
const models = ['chat', 'responses', 'messages'];

/** Returns a configuration with the inner gateway as an upstream of each protocol, and with model names that the agents recognize. */
function outerConfig({ url, key }: RunningGateway): string {
  const base = (protocol: string): string => (protocol === 'messages' ? url : `${url}/v1`);
  const providers = models.map(
    name => `  ${name}: { protocol: ${name}, base_url: "${base(name)}", api_key: "${key}" }`,
  );
  const capabilities = '{ vision: true, function_call: true, reasoning: true }';
  const entries = models.map(
    name =>
      `  - { id: up/${name}, context_length: 200000, max_output_tokens: 32000, capabilities: ${capabilities}, pricing: { input: 1, output: 4 }, routes: [{ provider: ${name}, model: sim/large }] }`,
  );
  const aliases = 'aliases: { brand-new: sim/large, claude-sonnet-4-5: sim/long, gpt-5-codex: sim/large }';
  return `${pace}providers:\n${providers.join('\n')}\nmodels:\n${entries.join('\n')}\n${aliases}\n`;
}

const everyModel = ['sim/large', 'up/chat', 'up/responses', 'up/messages'];
const modelsByClient: Readonly<Record<string, readonly string[]>> = {
  claude: [...everyModel, 'brand-new', 'claude-sonnet-4-5'],
  codex: [...everyModel, 'gpt-5-codex'],
  opencode: everyModel,
};

/** Writes refusals to a file, except those of HEAD requests, with which Claude Code checks whether a server answers. */
function keep(refusals: readonly Refusal[], name: string): void {
  if (refusals.length === 0) return;
  mkdirSync(refusedFolder, { recursive: true });
  writeFileSync(
    join(refusedFolder, `${name.replaceAll(/[^\w-]+/g, '_')}.json`),
    JSON.stringify(refusals, undefined, 2),
  );
}

async function main(agents: readonly string[]): Promise<number> {
  rmSync(refusedFolder, { recursive: true, force: true });
  if (agents.some(agent => !agent.startsWith('python')) && !existsSync(resolve(folder, 'node_modules/.bin/claude'))) {
    // Some platform packages of opencode are not in every registry, so a lock file would not work.
    const { status } = spawnSync('npm', ['install', '--no-package-lock'], { cwd: folder, stdio: 'inherit' });
    if (status !== 0) return 1;
  }
  const inner = await startGateway(pace);
  const gateway = await startGateway(outerConfig(inner));
  const recorder = new Recorder(gateway.url);
  const url = await recorder.open();
  let failures = 0;
  for (const agent of agents) {
    if (agent.startsWith('python')) {
      const [, client] = agent.split(':');
      const clients = client === undefined ? Object.keys(pythonClients) : [client];
      failures += await runPython(clients, inner, outerConfig(inner));
      continue;
    }
    for (const model of modelsByClient[agent] ?? []) {
      for (const { name, run } of conversations[agent] ?? []) {
        const before = recorder.sockets;
        const wrong = await run({ gateway, url, model });
        const refusals = recorder.take();
        const title = `${agent} ${model}: ${name}`;
        // When a budget is used up, requests are refused.
        const refused = name.startsWith('a budget') ? [] : refusals;
        keep(refused, title);
        const sockets = recorder.sockets === before ? '' : `, ${recorder.sockets - before} WebSockets`;
        const said = refused.map(({ method, path, status }) => `${method} ${path} ${status}`);
        const isGood = wrong === undefined && refused.length === 0;
        if (!isGood) failures += 1;
        const details = [...(wrong === undefined ? [] : [wrong]), ...new Set(said)];
        process.stdout.write(
          `${isGood ? 'ok    ' : 'FAILED'} ${title}${sockets}\n${details.map(each => `         ${each}\n`).join('')}`,
        );
      }
    }
  }
  recorder.close();
  await gateway.stop();
  await inner.stop();
  process.stdout.write(`${failures} failed\n`);
  return failures === 0 ? 0 : 1;
}

const named = process.argv.slice(2);
process.exitCode = await main(named.length === 0 ? [...Object.keys(conversations), 'python'] : named);
