import { resolve } from 'node:path';
import process from 'node:process';
import type { Ended, RunningGateway } from './place.ts';

/** What went wrong in a conversation; absent: nothing. */
export type Outcome = string | undefined;

/** A conversation of an agent with a model. */
export interface Conversation {
  readonly name: string;
  readonly run: (place: ConversationPlace) => Promise<Outcome>;
}

/** Where a conversation runs. */
export interface ConversationPlace {
  readonly gateway: RunningGateway;
  /** The gateway's URL for the agents. */
  readonly url: string;
  readonly model: string;
}

type Json = Readonly<Record<string, unknown>>;

/** Returns the parsed lines that are JSON objects. */
function jsonLines(text: string): Json[] {
  const lines: Json[] = [];
  for (const line of text.split('\n')) {
    try {
      // Agents also print lines that are not JSON objects.
      const value = JSON.parse(line) as Json | string | number | boolean | null;
      if (typeof value === 'object' && value !== null) lines.push(value);
    } catch {
      // The line is not JSON.
    }
  }
  return lines;
}

interface More {
  readonly interruptMs?: number;
  readonly env?: Record<string, string>;
  readonly input?: string;
  readonly budget?: string;
}

function start(
  { gateway, url, model }: ConversationPlace,
  command: readonly string[],
  { budget = '5', ...more }: More = {},
): Promise<Ended> {
  return gateway.tollgate(['run', '--budget', budget, '--model', model, '--url', url, '--', ...command], more);
}

const tail = (text: string): string => text.trim().slice(-600);
// opencode puts quotation marks around a prompt, so a steering line must not be the last line.
const turns = [
  'Say hello.',
  'Read the file.\n!sim calls=1\n',
  'Go on.\n!sim calls=2\n',
  'Explain it.\n!sim tokens=300\n',
  'Say goodbye.',
];

/** Runs turns one after the other in one session. `ask` returns the session, or what went wrong. */
async function inTurns(
  ask: (prompt: string, session: string | undefined) => Promise<{ readonly session?: string; readonly wrong?: string }>,
): Promise<Outcome> {
  let session: string | undefined;
  for (const [index, prompt] of turns.entries()) {
    const said = await ask(prompt, session);
    if (said.wrong !== undefined) return `turn ${index + 1}: ${said.wrong}`;
    session ??= said.session;
    if (session === undefined) return `turn ${index + 1}: no session`;
  }
  return undefined;
}

const claudeArguments = [
  '--output-format',
  'stream-json',
  '--verbose',
  '--allowedTools',
  'Read',
  'Glob',
  'Grep',
  'TodoWrite',
];

function claudeResult({ stdout, stderr }: Ended): { readonly session?: string; readonly wrong?: string } {
  const result = jsonLines(stdout).findLast(({ type }) => type === 'result');
  if (result === undefined) return { wrong: tail(stdout + stderr) };
  if (result['is_error'] === true) return { wrong: String(result['result']) };
  return { session: String(result['session_id']) };
}

/** The image of one red pixel. */
const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const toolsServer = resolve(import.meta.dirname, 'tools-server.mjs');

const claude: readonly Conversation[] = [
  {
    name: 'five turns with tools, resumed',
    run: place =>
      inTurns(async (prompt, session) => {
        const resumed = session === undefined ? [] : ['--resume', session];
        return claudeResult(await start(place, ['claude', '-p', prompt, ...resumed, ...claudeArguments]));
      }),
  },
  {
    name: 'an image',
    run: async place => {
      const content = [
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: pixel } },
        { type: 'text', text: 'What is it?' },
      ];
      const input = `${JSON.stringify({ type: 'user', message: { role: 'user', content } })}\n`;
      const command = ['claude', '-p', '--input-format', 'stream-json', ...claudeArguments];
      return claudeResult(await start(place, command, { input })).wrong;
    },
  },
  {
    name: 'tool search',
    run: async place => {
      const servers = JSON.stringify({
        mcpServers: { laboratory: { command: process.execPath, args: [toolsServer] } },
      });
      const command = ['claude', '-p', 'Measure it.\n!sim calls=1', '--mcp-config', servers, ...claudeArguments];
      return claudeResult(await start(place, command, { env: { ENABLE_TOOL_SEARCH: 'true' } })).wrong;
    },
  },
  {
    name: 'a cancel',
    run: async place => {
      const command = ['claude', '-p', 'Tell a story.\n!sim tokens=4000 tps=40', ...claudeArguments];
      const { stderr } = await start(place, command, { interruptMs: 12_000 });
      return stderr.includes('the key is revoked') ? undefined : tail(stderr);
    },
  },
];

const codexResult = ({ stdout, stderr }: Ended): { readonly session?: string; readonly wrong?: string } => {
  const lines = jsonLines(stdout);
  if (!lines.some(({ type }) => type === 'turn.completed')) return { wrong: tail(stdout + stderr) };
  const session = lines.find(({ type }) => type === 'thread.started')?.['thread_id'];
  return typeof session === 'string' ? { session } : {};
};

/** Returns the conversations of Codex. `settings`: further `-c` values. */
function codex(name: string, settings: readonly string[]): Conversation[] {
  const options = ['--skip-git-repo-check', '--json', ...settings.flatMap(each => ['-c', each])];
  return [
    {
      name: `${name}, five turns with tools, resumed`,
      run: place =>
        inTurns(async (prompt, session) => {
          const resumed = session === undefined ? [] : ['resume', session];
          return codexResult(await start(place, ['codex', 'exec', ...resumed, ...options, prompt]));
        }),
    },
    {
      name: `${name}, a cancel`,
      run: async place => {
        const command = ['codex', 'exec', ...options, 'Tell a story.\n!sim tokens=4000 tps=40'];
        const { stderr } = await start(place, command, { interruptMs: 10_000 });
        return stderr.includes('the key is revoked') ? undefined : tail(stderr);
      },
    },
  ];
}

const opencode: readonly Conversation[] = [
  {
    name: 'five turns with tools, resumed',
    run: place =>
      inTurns(async (prompt, session) => {
        const resumed = session === undefined ? [] : ['--session', session];
        const { stdout, stderr } = await start(place, ['opencode', 'run', '--format', 'json', ...resumed, prompt]);
        const lines = jsonLines(stdout);
        const failed = lines.find(({ type }) => type === 'error');
        if (failed !== undefined || lines.length === 0) return { wrong: tail(stdout + stderr) };
        return { session: String(lines[0]?.['sessionID']) };
      }),
  },
];

/** A conversation whose budget is used up in the middle: the agent reports why, and no more is spent. */
const budget: Conversation = {
  name: 'a budget of $0.05',
  run: async place => {
    const command = ['claude', '-p', 'Tell a story.\n!sim tokens=8000', ...claudeArguments];
    for (let requested = 0; requested < 12; requested += 1) {
      const { stdout, stderr } = await start(place, command, { budget: '0.05' });
      const spent = Number(/\$(\S+) spent/.exec(stderr)?.[1]);
      if (!(spent <= 0.05)) return `spent ${spent}: ${tail(stderr)}`;
      if (/balance|budget/i.test(stdout)) return undefined;
      if (claudeResult({ stdout, stderr, code: 0 }).wrong !== undefined) return tail(stdout);
      if (spent > 0.045) return undefined;
    }
    return 'the budget was never used up';
  },
};

/** The conversations of each agent. */
export const conversations: Readonly<Record<string, readonly Conversation[]>> = {
  claude: [...claude, budget],
  codex: [...codex('HTTP', []), ...codex('WebSocket', ['model_providers.tollgate.supports_websockets=true'])],
  opencode,
};
