import { homedir } from 'node:os';
import { join } from 'node:path';
import { isMap, isSeq, parseDocument } from 'yaml';
import { CommandFailure } from '../failure.ts';
import type { Access } from './access.ts';
import type { ClientName } from './client-names.ts';
import { opencodeSettings } from './environment.ts';

/** A file of a client's settings. */
export interface ClientFile {
  readonly path: string;
  /**
   * Returns the new content of the file, with the gateway in it. `text`: the current content; undefined if the file does not exist. Throws
   * `CommandFailure` if the content can't be parsed.
   */
  readonly change: (text: string | undefined, access: Access) => string;
}

/** A program that `connect` configures for the gateway. docs/clients.md lists the tried versions. */
export interface ClientProgram {
  readonly title: string;
  /** Its settings files; empty if the settings are not in a file and must be entered by hand. */
  readonly files: readonly ClientFile[];
  /** Returns what the user must do in the client, in addition to the files or instead of them. */
  readonly steps: (access: Access) => readonly string[];
  /** The interface that the program uses. */
  readonly uses: 'messages' | 'responses' | 'chat' | 'gemini';
}

type Variables = Readonly<Record<string, string | undefined>>;

const nothing = (): readonly string[] => [];

/** Clients whose settings are not in a file. */
const editors = {
  cline: {
    title: 'Cline',
    files: [],
    steps: ({ url, key, model }: Access) => [
      'Settings, API Configuration: API Provider "OpenAI Compatible"',
      `Base URL: ${url}/v1`,
      `API Key: ${key}`,
      `Model ID: ${model}`,
    ],
    uses: 'chat',
  },
  cursor: {
    title: 'Cursor',
    files: [],
    steps: ({ url, key, model }: Access) => [
      'Cursor sends requests from its own servers: the gateway needs an address that the internet can reach (public_url).',
      'Settings, Models, API Keys:',
      `OpenAI API Key: ${key}`,
      `Override OpenAI Base URL: ${url}/v1`,
      `Add model: ${model}`,
    ],
    uses: 'chat',
  },
} satisfies Partial<Record<ClientName, ClientProgram>>;

/** Returns the programs by their names in `connect`. `variables`: environment variables, which say where some programs look for their settings. */
export function clientPrograms(variables: Variables): Readonly<Record<ClientName, ClientProgram>> {
  const home = variables['HOME'] ?? homedir();
  const config = variables['XDG_CONFIG_HOME'] ?? join(home, '.config');
  const claude = variables['CLAUDE_CONFIG_DIR'] ?? join(home, '.claude');
  const codex = variables['CODEX_HOME'] ?? join(home, '.codex');
  return {
    'claude-code': {
      title: 'Claude Code',
      files: [{ path: join(claude, 'settings.json'), change: claudeSettings }],
      steps: nothing,
      uses: 'messages',
    },
    codex: {
      title: 'Codex',
      files: [{ path: join(codex, 'config.toml'), change: codexSettings }],
      steps: nothing,
      uses: 'responses',
    },
    opencode: {
      title: 'opencode',
      files: [{ path: join(config, 'opencode', 'opencode.json'), change: opencodeFile }],
      steps: nothing,
      uses: 'chat',
    },
    'gemini-cli': {
      title: 'Gemini CLI',
      files: [
        { path: join(home, '.gemini', '.env'), change: geminiVariables },
        { path: join(home, '.gemini', 'settings.json'), change: geminiSettings },
      ],
      steps: nothing,
      uses: 'gemini',
    },
    'qwen-code': {
      title: 'Qwen Code',
      files: [
        { path: join(home, '.qwen', '.env'), change: qwenVariables },
        { path: join(home, '.qwen', 'settings.json'), change: qwenSettings },
      ],
      steps: nothing,
      uses: 'chat',
    },
    continue: {
      title: 'Continue',
      files: [{ path: join(home, '.continue', 'config.yaml'), change: continueSettings }],
      steps: nothing,
      uses: 'chat',
    },
    aider: {
      title: 'aider',
      files: [{ path: join(home, '.aider.conf.yml'), change: aiderSettings }],
      steps: nothing,
      uses: 'chat',
    },
    ...editors,
  };
}

type JsonObject = Record<string, unknown>;

/** Returns a JSON file with members merged into its objects. Other members stay. */
function mergedJson(text: string | undefined, more: JsonObject): string {
  const merge = (into: JsonObject, from: JsonObject): JsonObject => {
    const merged = { ...into };
    for (const [name, value] of Object.entries(from)) {
      const was = merged[name];
      merged[name] = isObject(value) && isObject(was) ? merge(was, value) : value;
    }
    return merged;
  };
  return `${JSON.stringify(merge(parsedJson(text), more), undefined, 2)}\n`;
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function parsedJson(text: string | undefined): JsonObject {
  if (text === undefined || text.trim() === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
  } catch {
    // The file is damaged, or has comments, which some programs allow.
  }
  throw new CommandFailure(1, [
    'The file is not plain JSON and was not changed.',
    'Use --print to see the settings, and add them by hand.',
  ]);
}

function claudeSettings(text: string | undefined, { url, key, model }: Access): string {
  const smaller = ['SMALL_FAST', 'DEFAULT_HAIKU', 'DEFAULT_SONNET', 'DEFAULT_OPUS'];
  const env = {
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_AUTH_TOKEN: key,
    ANTHROPIC_MODEL: model,
    ...Object.fromEntries(smaller.map(name => [`ANTHROPIC_${name}_MODEL`, model])),
  };
  return mergedJson(text, { env });
}

function opencodeFile(text: string | undefined, access: Access): string {
  return mergedJson(text, { $schema: 'https://opencode.ai/config.json', ...opencodeSettings(access) });
}

function qwenSettings(text: string | undefined, { model }: Access): string {
  return mergedJson(text, { security: { auth: { selectedType: 'openai' } }, model: { name: model } });
}

function qwenVariables(text: string | undefined, { url, key, model }: Access): string {
  return withVariables(text, { OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: key, OPENAI_MODEL: model });
}

function geminiSettings(text: string | undefined, { model }: Access): string {
  return mergedJson(text, { security: { auth: { selectedType: 'gemini-api-key' } }, model: { name: model } });
}

function geminiVariables(text: string | undefined, { url, key, model }: Access): string {
  return withVariables(text, { GOOGLE_GEMINI_BASE_URL: url, GEMINI_API_KEY: key, GEMINI_MODEL: model });
}

/** Returns a file of variables with these at its end, in place of earlier ones with their names. */
function withVariables(text: string | undefined, own: Readonly<Record<string, string>>): string {
  const isOwn = (line: string): boolean => Object.hasOwn(own, /^\s*(?:export\s+)?(\w+)\s*=/.exec(line)?.[1] ?? '');
  const others = (text ?? '').split('\n').filter(line => line !== '' && !isOwn(line));
  return `${[...others, ...Object.entries(own).map(pair => pair.join('='))].join('\n')}\n`;
}

/** Adds a provider at the end of the file, and selects it at the beginning, because in TOML all keys after a table's header belong to the table. JSON strings are valid TOML. */
function codexSettings(text: string | undefined, { url, key, model }: Access): string {
  const kept: string[] = [];
  let table = '';
  for (const line of (text ?? '').split('\n')) {
    table = /^\s*\[+\s*([^\]]+?)\s*\]/.exec(line)?.[1] ?? table;
    if (table === 'model_providers.tollgate') continue;
    if (table === '' && /^\s*model(_provider)?\s*=/.test(line)) continue;
    kept.push(line);
  }
  const top = `model = ${JSON.stringify(model)}\nmodel_provider = "tollgate"\n`;
  const rest = kept.join('\n').trim();
  const provider = [
    '[model_providers.tollgate]',
    'name = "Tollgate"',
    `base_url = ${JSON.stringify(`${url}/v1`)}`,
    'wire_api = "responses"',
    `experimental_bearer_token = ${JSON.stringify(key)}`,
  ];
  return `${[top, ...(rest === '' ? [] : [`${rest}\n`]), ...provider].join('\n')}\n`;
}

/** Parses a YAML file, keeping its comments; an empty document if there is no file. */
function readYaml(text: string | undefined) {
  const document = parseDocument(text ?? '');
  if (document.errors.length > 0 || (document.contents !== null && !isMap(document.contents))) {
    throw new CommandFailure(1, [
      'The file is not valid YAML and was not changed.',
      'Use --print to see the settings, and add them by hand.',
    ]);
  }
  return document;
}

function continueSettings(text: string | undefined, { url, key, model }: Access): string {
  const document = readYaml(text);
  if (document.contents === null) {
    for (const [name, value] of Object.entries({ name: 'Tollgate', version: '1.0.0', schema: 'v1' })) {
      document.set(name, value);
    }
  }
  const entry = {
    name: 'Tollgate',
    provider: 'openai',
    model,
    apiBase: `${url}/v1`,
    apiKey: key,
    roles: ['chat', 'edit', 'apply'],
  };
  const models = document.get('models');
  const others = isSeq(models) ? models.items.filter(item => !(isMap(item) && item.get('name') === 'Tollgate')) : [];
  document.set('models', document.createNode([entry, ...others]));
  return document.toString();
}

function aiderSettings(text: string | undefined, { url, key, model }: Access): string {
  const document = readYaml(text);
  document.set('openai-api-base', `${url}/v1`);
  document.set('openai-api-key', key);
  document.set('model', `openai/${model}`);
  return document.toString();
}
