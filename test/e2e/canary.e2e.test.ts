/** Canaries stand for secrets and content of clients everywhere: whatever happens, none is found in a log, a metric, an error or the ledger's files. */
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runInside } from '../cli/run-inside.ts';
import { endGateway, type Gateway, isOnPostgres, makeHome, makeKey, startGateway } from '../gateway.ts';
import { readStored } from '../stored-content.ts';
import { type Behaviour, chunk, lastChunk, RawUpstream, streamHead, whole } from '../upstreams/raw-upstream.ts';
import { Collector } from './otlp-collector.ts';
import { type Called, programs } from './rpc-programs.ts';

const secret = (what: string): string => `canary${what}${randomBytes(20).toString('hex')}`;
/** Returns a canary with the length and the characters of a key. */
const keyLike = (prefix: string, what: string): string => prefix + secret(what).padEnd(43, '0').slice(0, 43);

const home = {
  ...makeHome(),
  apiKey: keyLike('sk-tg-', 'Api'),
  managementKey: keyLike('mk-tg-', 'Mgmt'),
};
const provider = {
  first: secret('First'),
  second: secret('Second'),
  header: secret('Header'),
  inline: secret('Inline'),
};
const answerHeader = secret('AnswerHeader');
const prompt = {
  user: secret('User'),
  system: secret('System'),
  tool: secret('Tool'),
  result: secret('Result'),
  end: secret('Enduser'),
};
const output = {
  text: secret('Text'),
  arguments: secret('Arguments'),
  broken: secret('Broken'),
  refusal: secret('Refusal'),
};
const stranger = keyLike('sk-tg-', 'Stranger');

function frame(choice: object, more: object = {}): string {
  const choices = [{ index: 0, finish_reason: null, ...choice }];
  return `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm', choices, ...more })}\n\n`;
}
const text = frame({ delta: { role: 'assistant', content: `Well, ${output.text}` } });
const calls = frame({
  delta: {
    tool_calls: [
      { index: 0, id: 'c', type: 'function', function: { name: 'look', arguments: `{"at":"${output.arguments}"}` } },
    ],
  },
});
const finish = `${frame({ delta: {}, finish_reason: 'tool_calls' })}data: [DONE]\n\n`;

/** What the upstream does. Each of these answers reveals more than it should. */
const behaviours: Record<string, Behaviour> = {
  whole: socket =>
    void socket.write(Buffer.concat([Buffer.from(streamHead), chunk(text + calls + finish), Buffer.from(lastChunk)])),
  echoes: (socket, { headers, body }) => {
    const message = `no: ${headers['authorization']} ${headers['x-own']} ${provider.first} ${body} at ${upstream.baseUrl}`;
    socket.write(
      whole(500, JSON.stringify({ error: { message } }), { 'x-leak': answerHeader, 'set-cookie': answerHeader }),
    );
  },
  unauthorized: (socket, { headers }) =>
    void socket.write(
      whole(401, JSON.stringify({ error: { message: `bad key ${headers['authorization']}` } }), {
        'x-leak': answerHeader,
      }),
    ),
  rejects: (socket, { body, headers }) =>
    void socket.write(
      whole(
        400,
        JSON.stringify({ error: { message: `can't: ${body} ${headers['authorization']}`, param: output.refusal } }),
      ),
    ),
  reports: socket => {
    socket.write(streamHead);
    socket.write(
      chunk(
        `${text}data: ${JSON.stringify({ error: { message: `${provider.first} ${output.broken}`, code: output.broken } })}\n\n`,
      ),
    );
  },
  garbage: socket => {
    socket.write(streamHead);
    socket.write(chunk(`${text}data: {"choices":[{"${output.broken}\n\n`));
  },
  'not HTTP': socket => void socket.end(`${output.broken}\r\n\r\n`),
  'a bad header': socket => void socket.end(`HTTP/1.1 200 OK\r\n${output.broken}\0: x\r\n\r\n`),
  'a bad chunk': socket => {
    socket.write(streamHead);
    socket.end(`${output.broken}\r\n${text}`);
  },
  'too much': socket => {
    socket.write(streamHead);
    socket.write(chunk(`data: ${output.broken.repeat(1_000)}`));
  },
  'a web page': socket =>
    void socket.write(whole(200, `<html>${output.broken}</html>`, { 'content-type': 'text/html' })),
  stalls: socket => {
    socket.write(streamHead);
    socket.write(chunk(text));
  },
  breaks: socket => {
    socket.write(streamHead);
    socket.write(chunk(text));
    setTimeout(() => socket.resetAndDestroy(), 30);
  },
};

const collector = await Collector.start();
const upstream = await RawUpstream.start((socket, request) => {
  // The operator's request for the list of models.
  if (request.body === '') return void socket.write(whole(404, '{}'));
  const { model } = JSON.parse(request.body) as { model: string };
  return behaviours[model]?.(socket, request);
});

const config = (more = ''): string => `
log_level: debug
retries: 0
limits: { upstream_event_bytes: 20000 }
timeouts: { first_event: 500ms, idle: 500ms }
providers:
  raw:
    protocol: chat
    base_url: "${upstream.baseUrl}"
    api_key: ["\${FIRST_KEY}", "\${SECOND_KEY}"]
    headers: { x-own: "\${OWN_HEADER}" }
  # Keys that are refused rest: they have a provider of their own.
  refused:
    protocol: chat
    base_url: "${upstream.baseUrl}"
    api_key: ["\${FIRST_KEY}", "\${SECOND_KEY}"]
    headers: { x-own: "\${OWN_HEADER}" }
  inline: { protocol: chat, base_url: "http://127.0.0.1:9/v1", api_key: "${provider.inline}" }
models:${Object.keys(behaviours)
  .map(
    name => `
  - id: "acme/${name.replaceAll(' ', '-')}"
    endpoints: [/v1/chat/completions]
    capabilities: { function_call: true }
    pricing: { input: 1, output: 10 }
    routes: [{ provider: ${name === 'unauthorized' ? 'refused' : 'raw'}, model: "${name}" }]`,
  )
  .join('')}
  - id: acme/inline
    endpoints: [/v1/chat/completions]
    pricing: { input: 1, output: 10 }
    routes: [{ provider: inline, model: m }]
${more}`;
const models = [...Object.keys(behaviours).map(name => `acme/${name.replaceAll(' ', '-')}`), 'acme/inline'];

let gateway: Gateway;
let operatorToken: string;
/** All answers that callers received, with their headers. */
const collected = { errors: '', successes: '' };
let made: { key: string; managementKey: string };

const start = (): Promise<Gateway> =>
  startGateway({
    home,
    config: config(),
    environment: {
      FIRST_KEY: provider.first,
      SECOND_KEY: provider.second,
      OWN_HEADER: provider.header,
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_BSP_SCHEDULE_DELAY: '100',
      OTEL_METRIC_EXPORT_INTERVAL: '1000',
    },
  });

beforeAll(async () => {
  // The first start prints the keys that it makes, as documented, so it happens before the log is collected.
  await (await start()).stop();
  gateway = await start();
  operatorToken = readFileSync(join(home.dataDir, 'operator.token'), 'utf8').trim();
  const { key } = await gateway.admin.createManagementKey({ accountId: 1n, scopes: ['keys:read'] });
  made = { key: (await makeKey(gateway)).key, managementKey: key?.key ?? expect.fail() };
  await sendClientRequests();
  await sendWrongRequests();
  await sendRpcRequests();
  await checkWrongFile();
  // The gateway buffers log lines for at most 100 ms.
  await sleep(300);
});
afterAll(async () => {
  await endGateway(gateway);
  await upstream.stop();
  await collector.stop();
});

const body = (model: string, stream: boolean): object => ({
  model,
  stream,
  user: prompt.end,
  messages: [
    { role: 'system', content: prompt.system },
    { role: 'user', content: prompt.user },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c', type: 'function', function: { name: 'look', arguments: `{"at":"${prompt.tool}"}` } }],
    },
    { role: 'tool', tool_call_id: 'c', content: prompt.result },
  ],
  tools: [{ type: 'function', function: { name: 'look', description: prompt.tool } }],
});

async function ask(path: string, init: RequestInit): Promise<void> {
  const response = await fetch(gateway.url + path, init);
  const heard = JSON.stringify([...response.headers]) + (await response.text());
  if (response.status === 200 && !heard.includes('"error"')) collected.successes += heard;
  else collected.errors += heard;
}

const makeHeaders = (key: string): Record<string, string> => ({
  authorization: `Bearer ${key}`,
  'content-type': 'application/json',
});

/** Sends requests for every behaviour of the upstream, streamed and not, and disconnects during one. */
async function sendClientRequests(): Promise<void> {
  for (const model of models) {
    for (const stream of [false, true]) {
      await ask('/v1/chat/completions', {
        method: 'POST',
        headers: makeHeaders(home.apiKey),
        body: JSON.stringify(body(model, stream)),
      });
    }
  }
  const leave = new AbortController();
  const left = ask('/v1/chat/completions', {
    method: 'POST',
    headers: makeHeaders(made.key),
    body: JSON.stringify(body('acme/stalls', true)),
    signal: leave.signal,
  });
  setTimeout(() => leave.abort(), 150);
  await left.catch(() => undefined);
}

/** Sends wrong requests, each with a canary that must not be repeated in a log. */
async function sendWrongRequests(): Promise<void> {
  const post = (path: string, key: string, text: string, more: Record<string, string> = {}): Promise<void> =>
    ask(path, { method: 'POST', headers: { ...makeHeaders(key), ...more }, body: text });
  const good = JSON.stringify(body('acme/whole', false));
  await post('/v1/chat/completions', stranger, good);
  await post('/v1/chat/completions', home.managementKey, good);
  await post('/v1/chat/completions', operatorToken, good);
  await post('/v1/chat/completions', home.apiKey, good, { 'x-api-key': stranger });
  await post('/v1/chat/completions', home.apiKey, good.slice(0, -1));
  await post('/v1/chat/completions', home.apiKey, `{"model":"${prompt.user}","messages":[]}`);
  await post(
    '/v1/chat/completions',
    home.apiKey,
    `{"model":"acme/whole","messages":[{"role":"${prompt.user}","content":1}]}`,
  );
  await post(
    '/v1/chat/completions',
    home.apiKey,
    `{"model":"acme/whole","temperature":9,"messages":[{"role":"user","content":"${prompt.user}"}]}`,
  );
  await post('/v1/chat/completions', home.apiKey, prompt.user, { 'content-type': `text/${prompt.user}` });
  await post(`/v1/${home.apiKey}`, home.apiKey, good);
  await post(`/v1/chat/completions?key=${home.apiKey}`, stranger, good);
  await ask(`/v1/models/${prompt.user}?q=${home.apiKey}`, { headers: makeHeaders(home.apiKey) });
  await ask('/v1/models', { headers: makeHeaders(home.apiKey) });
  await sendRaw(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${home.apiKey}\r\ncontent-length: 10\r\ncontent-length: 99\r\n\r\n${prompt.user}`,
  );
  await sendRaw(`${prompt.user} ${home.apiKey}\r\n\r\n`);
}

/** Sends bytes that no HTTP client sends. */
async function sendRaw(bytes: string): Promise<void> {
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => undefined);
  socket.end(bytes);
  for await (const heard of socket) collected.errors += String(heard);
}

/** Sends good and wrong requests over RPC. */
async function sendRpcRequests(): Promise<void> {
  const request = (model: string): Parameters<(typeof programs)[number]['call']>[1]['request'] => ({
    model,
    user: prompt.end,
    items: [{ message: { role: 'ROLE_USER', parts: [{ text: { text: prompt.user } }] } }],
  });
  const keep = ({ detail, code, text: heard }: Called): void => {
    collected.errors += `${code} ${detail === undefined ? '' : JSON.stringify({ ...detail, retryAfterMs: 0, denial: '', limits: '' })}`;
    collected.successes += heard;
  };
  const callers = programs.filter(({ name }) => name === 'grpc-js' || name.startsWith('curl'));
  for (const program of callers) {
    for (const model of models)
      keep(await program.call(gateway, { request: request(model), headers: { 'x-api-key': home.apiKey } }));
    for (const key of [stranger, home.managementKey, operatorToken]) {
      keep(await program.call(gateway, { request: request('acme/whole'), headers: makeHeaders(key) }));
    }
    keep(
      await program.call(gateway, {
        request: { ...request('acme/whole'), sampling: { temperature: 9 } },
        headers: makeHeaders(home.apiKey),
      }),
    );
  }
  for (const path of [
    `/tollgate.v1.GenerationService/${home.apiKey}`,
    '/tollgate.v1.AccountService/ListKeys',
    '/tollgate.v1.AdminService/ListAccounts',
  ]) {
    for (const key of [home.apiKey, home.managementKey, made.managementKey, stranger]) {
      const response = await fetch(gateway.rpcUrl + path, { method: 'POST', headers: makeHeaders(key), body: '{}' });
      const heard = await response.text();
      collected[response.status === 200 ? 'successes' : 'errors'] += heard;
    }
  }
}

/** Checks a configuration file that has an error next to a secret. */
async function checkWrongFile(): Promise<void> {
  const file = join(home.folder, 'gateway.yaml');
  writeFileSync(
    file,
    config(`nonsense: "${provider.inline}"\n`)
      .replace('api_key: "', 'api_kee: "')
      .replace('api_key: ["', 'api_key: [{}, "'),
  );
  const checked = await gateway.cli(['config', 'check', file]);
  expect(checked.code).toBe(2);
  collected.errors += checked.stdout + checked.stderr;
  writeFileSync(file, config());
}

/** Returns a value unchanged, URL-encoded, in base64 and in hexadecimal. */
function spellings(value: string): string[] {
  const bytes = Buffer.from(value);
  return [
    value,
    encodeURIComponent(value),
    bytes.toString('base64').replace(/=+$/, '').slice(0, -2),
    bytes.toString('hex'),
  ];
}

function found(haystack: string, canaries: Readonly<Record<string, string>>): string[] {
  return Object.entries(canaries)
    .filter(([, value]) => spellings(value).some(spelling => haystack.includes(spelling)))
    .map(([name]) => name);
}

const credentials = (): Record<string, string> => ({
  apiKey: home.apiKey,
  managementKey: home.managementKey,
  madeKey: made.key,
  madeManagementKey: made.managementKey,
  stranger,
  operatorToken,
  ...provider,
});
const contents = (): Record<string, string> => ({ ...prompt, ...output, answerHeader });

test('the canaries are found where they should be: in requests and answers', () => {
  expect(upstream.requests.length).toBeGreaterThan(40);
  const { headers, body: sent } = upstream.requests[0] ?? expect.fail();
  expect([`Bearer ${provider.first}`, `Bearer ${provider.second}`]).toContain(headers['authorization']);
  expect(headers['x-own']).toBe(provider.header);
  expect(found(sent, prompt)).toEqual(Object.keys(prompt));
  expect(found(collected.successes, output)).toEqual(['text', 'arguments']);
  expect(collected.errors.length).toBeGreaterThan(5_000);
});

test('the log at its most detailed level has neither credentials nor content', () => {
  const printed = gateway.printed();
  expect(printed.split('\n').filter(line => line.includes('"msg":"request"')).length).toBeGreaterThan(30);
  expect(found(printed, { ...credentials(), ...contents() })).toEqual([]);
});

test('traces and metrics over OTLP have neither credentials nor content', async () => {
  await expect
    .poll(() => [collector.spans.length > 100, collector.points.length > 0], { timeout: 10_000 })
    .toEqual([true, true]);
  const messages = collector.spans.filter(({ attributes }) => attributes['tollgate.upstream.message'] !== undefined);
  expect(messages.length).toBeGreaterThan(3);
  expect(found(collector.heard, { ...credentials(), ...contents() })).toEqual([]);
});

test('the metrics page has neither credentials nor content', async () => {
  const page = await (await fetch(`${gateway.rpcUrl}/metrics`)).text();
  expect(page).toContain('tollgate_requests_total');
  expect(found(page, { ...credentials(), ...contents() })).toEqual([]);
});

describe('errors', () => {
  test('have no credential, and nothing of the upstream but its message', () => {
    expect(found(collected.errors, { ...credentials(), answerHeader, port: `127.0.0.1:${upstream.port}` })).toEqual([]);
  });

  test('have the upstream’s message, without the key that it contains', () => {
    expect(collected.errors.includes(`can't: {`)).toBe(true);
    expect(collected.errors.split('[credential]').length).toBeGreaterThan(10);
    expect(collected.errors.includes('[address]')).toBe(true);
  });
});

test('successes have no credential', () => {
  expect(found(collected.successes, { ...credentials(), answerHeader })).toEqual([]);
});

test('stored data has neither credentials nor content, except for the end user in the ledger; the gateway’s secrets are only in their own files', async () => {
  const stored = await readStored(home);
  // The search covers the stored data: it finds what has to be there.
  expect(stored.some(({ text: each }) => each.includes(prompt.end))).toBe(true);
  for (const { name: file, text: each } of stored) {
    const { operatorToken: token, ...rest } = credentials();
    const all = { ...rest, ...contents(), ...(file.endsWith('operator.token') ? {} : { token }) };
    // Records have the end user as the client sent it.
    const isLedger = file.includes('ledger') || file === 'table end_user';
    const names = found(each, all).filter(name => !(isLedger && name === 'end'));
    expect([file, names]).toEqual([file, []]);
  }
  // Only the operator may read these files.
  expect(statSync(home.dataDir).mode & 0o077).toBe(0);
});

test('the command line shows keys masked', async () => {
  const listed = await Promise.all([
    runInside(gateway, ['keys', 'list', '--account', '1', '--json']),
    runInside(gateway, ['keys', 'list', '--account', '1']),
    runInside(gateway, ['management-keys', 'list', '--account', '1', '--json']),
    runInside(gateway, ['accounts', 'show', '1', '--json']),
    runInside(gateway, ['providers', '--json']),
    runInside(gateway, ['routes', '--json']),
    runInside(gateway, ['provider', 'test', 'raw', '--json']),
  ]);
  expect(listed.map(({ code }) => code)).toEqual([0, 0, 0, 0, 0, 0, 0]);
  expect(listed[0]?.stdout).toContain(`sk-tg-${home.apiKey.slice(6, 10)}`);
  expect(
    found(listed.map(({ stdout, stderr }) => stdout + stderr).join(), { ...credentials(), ...contents() }),
  ).toEqual([]);
});

/** Returns the command lines of all processes, as `ps` shows them to every user. */
function readProcessList(): string {
  const pids = existsSync('/proc') ? readdirSync('/proc').filter(name => /^\d+$/.test(name)) : [];
  return pids
    .map(pid => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      } catch {
        // The process has ended meanwhile.
        return '';
      }
    })
    .join('\n');
}

test('process lists, names of backup files, completion scripts, `status` and `doctor` show no secret', async () => {
  const backup = join(home.folder, 'canary-backup');
  const lists: string[] = [readProcessList()];
  const looking = setInterval(() => lists.push(readProcessList()), 20);
  // A database is backed up with the tools of PostgreSQL.
  const commands = [['run', '--', 'sleep', '0.2'], ...(isOnPostgres ? [] : [['backup', backup]])];
  const processes = await Promise.all(commands.map(command => gateway.cli(command)));
  clearInterval(looking);
  // These commands run inside this process and block it, so processes are listed before.
  const inside = await Promise.all([
    ...['bash', 'zsh', 'fish'].map(shell => runInside(gateway, ['completion', shell])),
    ...['status', 'doctor'].map(command => runInside(gateway, [command])),
  ]);
  const ended = [...processes, ...inside];
  // `doctor` is last, and names the provider that refuses its key.
  expect(ended.map(({ code }) => code)).toEqual([...ended.slice(1).map(() => 0), 1]);
  // The list was made while the processes ran.
  expect(lists.some(list => list.includes(backup))).toBe(!isOnPostgres);
  expect(lists.some(list => list.includes('sleep\u{0}0.2'))).toBe(true);
  const names = isOnPostgres ? [] : readdirSync(backup, { recursive: true, encoding: 'utf8' });
  expect(names.includes('manifest.json')).toBe(!isOnPostgres);
  const shown = [...lists, ...names, ...ended.map(({ stdout, stderr }) => stdout + stderr)].join('\n');
  const secrets = ['operator.token', 'edge.token', ...(isOnPostgres ? [] : ['server.secret'])].map(name => [
    name,
    readFileSync(join(home.dataDir, name), 'utf8').trim(),
  ]);
  expect(found(shown, { ...credentials(), ...contents(), ...Object.fromEntries(secrets) })).toEqual([]);
});
