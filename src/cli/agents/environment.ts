import { basename, delimiter, resolve } from 'node:path';
import type { Access } from './access.ts';

/**
 * The environment variables and arguments that make agents and clients use the gateway instead of their provider. docs/clients.md lists the
 * tested versions.
 */

/** Variables that are removed, because they would make an agent use another credential or another provider. */
const withheld = [
  'ANTHROPIC_API_KEY',
  'CLAUDE_CODE_OAUTH_TOKEN',
  'CLAUDE_CODE_USE_BEDROCK',
  'CLAUDE_CODE_USE_VERTEX',
  'CLAUDE_CODE_USE_FOUNDRY',
  'GOOGLE_API_KEY',
  'GOOGLE_GENAI_USE_VERTEXAI',
  'GOOGLE_GENAI_USE_GCA',
];

/** Returns the environment of a program that must use the gateway. */
export function programEnvironment(
  own: Readonly<Record<string, string | undefined>>,
  access: Access,
  command: readonly string[],
): Record<string, string> {
  const environment: Record<string, string> = {};
  for (const [name, value] of Object.entries(own)) {
    if (value !== undefined && !withheld.includes(name)) environment[name] = value;
  }
  const { PATH: path } = environment;
  return {
    ...environment,
    ...(path === undefined ? {} : { PATH: outerPath(path) }),
    ...accessVariables(access),
    ...programVariables(access, command),
  };
}

/** Returns the variables that only one program needs: Gemini CLI refuses a base URL in its variables unless it is in Vertex mode, which needs no settings file. */
function programVariables({ url, key }: Access, command: readonly string[]): Record<string, string> {
  if (programName(command) !== 'gemini') return {};
  return { GOOGLE_GENAI_USE_VERTEXAI: 'true', GOOGLE_VERTEX_BASE_URL: url, GOOGLE_API_KEY: key };
}

/** The folder of the gateway's own programs, which npx puts at the front of PATH. It is removed, because its pinned Node.js is not the one that agents expect. */
const ownPrograms = resolve(import.meta.dirname, '../../../node_modules/.bin');

function outerPath(path: string): string {
  const folders = path.split(delimiter).filter(folder => folder !== ownPrograms);
  return folders.join(delimiter);
}

/** Returns the variables that make clients of OpenAI's, Anthropic's and Google's interfaces use the gateway. */
export function accessVariables({ url, key, model }: Access): Record<string, string> {
  return {
    OPENAI_BASE_URL: `${url}/v1`,
    OPENAI_API_BASE: `${url}/v1`,
    OPENAI_API_KEY: key,
    OPENAI_MODEL: model,
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_AUTH_TOKEN: key,
    ANTHROPIC_MODEL: model,
    // Claude Code uses a second, smaller model for titles and summaries.
    ANTHROPIC_SMALL_FAST_MODEL: model,
    ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
    ANTHROPIC_DEFAULT_SONNET_MODEL: model,
    ANTHROPIC_DEFAULT_OPUS_MODEL: model,
    GOOGLE_GEMINI_BASE_URL: url,
    GEMINI_API_KEY: key,
    GEMINI_MODEL: model,
    OPENCODE_CONFIG_CONTENT: JSON.stringify(opencodeSettings({ url, key, model })),
  };
}

/** Returns the part of opencode's configuration that adds the gateway and chooses its model. */
export function opencodeSettings({ url, key, model }: Access) {
  return {
    provider: {
      tollgate: {
        npm: '@ai-sdk/openai-compatible',
        name: 'Tollgate',
        options: { baseURL: `${url}/v1`, apiKey: key },
        models: { [model]: { name: model } },
      },
    },
    model: `tollgate/${model}`,
    small_model: `tollgate/${model}`,
  };
}

/** Programs that start the program in their arguments. */
const starters = new Set(['npx', 'bunx', 'pnpx']);

/** Returns the place of the program in a command. */
function programAt(command: readonly string[]): number {
  return command.findIndex(
    (word, index) => (index === 0 || !word.startsWith('-')) && !(index === 0 && starters.has(basename(word))),
  );
}

/** Returns the name of the program in a command, without its version; a package that is named after its program counts as it. */
function programName(command: readonly string[]): string {
  const name = basename(command[programAt(command)] ?? '').replace(/@[^@]*$/, '');
  return name === 'gemini-cli' ? 'gemini' : name;
}

/** Returns the command with added arguments, for agents that can't be configured by variables: Codex reads its provider only from arguments. */
export function programCommand(command: readonly string[], { url, model }: Access): string[] {
  const at = programAt(command);
  if (programName(command) !== 'codex') return [...command];
  const settings = [
    'model_provider="tollgate"',
    `model=${JSON.stringify(model)}`,
    'model_providers.tollgate.name="Tollgate"',
    `model_providers.tollgate.base_url=${JSON.stringify(`${url}/v1`)}`,
    'model_providers.tollgate.env_key="OPENAI_API_KEY"',
    'model_providers.tollgate.wire_api="responses"',
  ];
  return [...command.slice(0, at + 1), ...settings.flatMap(each => ['-c', each]), ...command.slice(at + 1)];
}
