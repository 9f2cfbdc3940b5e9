import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { GeminiServer, geminiKey } from '../clients/gemini-server.ts';
import { type RunningGateway, startGateway } from './place.ts';

const folder = resolve(import.meta.dirname, 'python');

/** The Python clients and the versions that were tried. Each has a separate environment, because their dependencies conflict. */
export const pythonClients: Readonly<Record<string, readonly string[]>> = {
  openai: ['openai==3.54.0'],
  anthropic: ['anthropic==2.12.0'],
  langchain: ['langchain==1.4.7', 'langchain-openai==1.7.3', 'langchain-anthropic==1.7.7'],
  pydantic_ai: ['pydantic-ai-slim[openai,anthropic]==2.62.0'],
  openai_agents: ['openai-agents==0.24.0'],
  semantic_kernel: ['semantic-kernel==1.45.0'],
  litellm: ['litellm==1.106.2', 'mcp'],
};

/** Installs a client if necessary. Returns the path of its Python; undefined if the installation fails. */
function install(client: string): string | undefined {
  const place = join(folder, 'environments', client);
  const python = join(place, 'bin/python');
  if (existsSync(join(place, 'ready'))) return python;
  const steps: [string, ...string[]][] = [
    ['python3', '-m', 'venv', place],
    [python, '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...(pythonClients[client] ?? [])],
    ['touch', join(place, 'ready')],
  ];
  const isInstalled = steps.every(
    ([program, ...args]) => spawnSync(program, args, { stdio: ['ignore', 'ignore', 'inherit'] }).status === 0,
  );
  return isInstalled ? python : undefined;
}

/** Starts a gateway with upstreams of all four protocols. Returns it and how to stop it. */
async function startWithGemini(
  inner: RunningGateway,
  config: string,
): Promise<{ gateway: RunningGateway; stop: () => Promise<void> }> {
  const gemini = await GeminiServer.start({ url: inner.url, apiKey: inner.key });
  const gateway = await startGateway(
    config.replace(
      'models:\n',
      `  gemini: { protocol: gemini, base_url: "${gemini.baseUrl}", api_key: "${geminiKey}" }\nmodels:\n  - { id: up/gemini, context_length: 200000, max_output_tokens: 32000, capabilities: { vision: true, function_call: true, reasoning: true }, pricing: { input: 1, output: 4 }, routes: [{ provider: gemini, model: gemini-2.5-flash }] }\n`,
    ),
  );
  return {
    gateway,
    stop: async () => {
      await gateway.stop();
      await gemini.stop();
    },
  };
}

/** Runs a program, asynchronously because the Gemini server answers in this process. */
async function runProgram(
  program: string,
  args: readonly string[],
): Promise<{ status: number | null; stdout: string }> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'], timeout: 240_000 });
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  const [status] = (await once(child, 'close')) as [number | null];
  return { status, stdout };
}

/** Runs the Python clients with the built-in model and the four upstream protocols. Prints a line for each; returns how many failed. */
export async function runPython(clients: readonly string[], inner: RunningGateway, config: string): Promise<number> {
  const { gateway, stop } = await startWithGemini(inner, config);
  let failures = 0;
  for (const client of clients) {
    const python = install(client);
    for (const model of ['sim/large', 'up/chat', 'up/responses', 'up/messages', 'up/gemini']) {
      const { status, stdout } =
        python === undefined
          ? { status: 1, stdout: 'it could not be installed\n' }
          : await runProgram(python, [join(folder, `${client}_client.py`), gateway.url, gateway.key, model]);
      if (status !== 0) failures += 1;
      const shown = status === 0 ? '' : stdout.replace(/^(?=.)/gm, '         ');
      process.stdout.write(`${status === 0 ? 'ok    ' : 'FAILED'} python ${client} ${model}\n${shown}`);
    }
  }
  await stop();
  return failures;
}
