/** Both listeners over TLS, certificates that are replaced while the gateway runs, and the Unix socket for the operator's commands. */
import { copyFileSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { type RequestOptions, request as httpsRequest } from 'node:https';
import { connect as connectHttp2 } from 'node:http2';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { Health, HealthCheckResponse_ServingStatus as Status } from '../../src/gen/grpc/health/v1/health_pb.ts';
import {
  gatewayEnvironment,
  expectVerified,
  type Home,
  makeHome,
  root,
  run,
  runCommand,
  prepareDatabase,
} from '../gateway.ts';

const fixtures = join(import.meta.dirname, 'fixtures/tls');
const pem = (name: string): Buffer => readFileSync(join(fixtures, `${name}.pem`));
const ca = pem('ca');
const asClient = { ca, cert: pem('client.cert'), key: pem('client.key') };

let home: Home;
let running: ReturnType<typeof run>;
let ports: { readonly edge: number; readonly rpc: number };

beforeAll(async () => {
  home = makeHome();
  const certificates = join(home.folder, 'tls');
  mkdirSync(certificates);
  install('first');
  copyFileSync(join(fixtures, 'ca.pem'), join(certificates, 'ca.pem'));
  const config = join(home.folder, 'gateway.yaml');
  const files = `cert: ${certificates}/cert.pem, key: ${certificates}/key.pem`;
  writeFileSync(
    config,
    `tls: { ${files} }\nrpc: { admin: socket, tls: { ${files}, client_ca: ${certificates}/ca.pem } }\n`,
  );
  await prepareDatabase(home);
  const env = gatewayEnvironment(home, { TOLLGATE_BOOTSTRAP_API_KEY: home.apiKey });
  running = run([process.execPath, join(root, 'bin/tollgate.js'), 'serve', '--config', config], {
    cwd: home.folder,
    env,
  });
  const readPort = (name: string): number =>
    Number(new RegExp(`^\\s*${name}\\s+https://[^:]+:(\\d+)`, 'm').exec(running.output.stdout)?.[1]);
  for (const end = performance.now() + 30_000; !(readPort('internal') > 0) && performance.now() < end;) await sleep(20);
  ports = { edge: readPort('public'), rpc: readPort('internal') };
});
afterAll(async () => {
  running.child.kill('SIGTERM');
  expect((await running.ended).code).toBe(0);
  await expectVerified(home);
  expect(existsSync(join(home.dataDir, 'operator.sock'))).toBe(false);
});

/** Writes a certificate and its key to the files that the gateway reads. */
function install(name: string): void {
  copyFileSync(join(fixtures, `${name}.cert.pem`), join(home.folder, 'tls/cert.pem'));
  copyFileSync(join(fixtures, `${name}.key.pem`), join(home.folder, 'tls/key.pem'));
}

/** Returns the subject of a port's certificate. */
async function nameAt(port: number): Promise<string> {
  const socket = connectTls({ port, host: '127.0.0.1', ...asClient });
  await new Promise<void>((done, failed) => {
    socket.once('secureConnect', done).once('error', failed);
  });
  const { subject } = socket.getPeerCertificate();
  socket.destroy();
  return String(subject.CN);
}

function get(options: RequestOptions, body?: string): Promise<{ status: number; text: string }> {
  return new Promise((done, failed) => {
    const request = httpsRequest({ host: '127.0.0.1', agent: false, ...options }, response => {
      let text = '';
      response.on('data', (bytes: Buffer) => (text += bytes.toString()));
      response.on('end', () => done({ status: response.statusCode ?? 0, text }));
      response.on('error', failed);
    });
    request.on('error', failed).end(body);
  });
}

test('the public listener answers over TLS, whole and streamed, and does not answer without TLS', async () => {
  const ask = (stream: boolean) =>
    get(
      {
        port: ports.edge,
        ca,
        path: '/v1/chat/completions',
        method: 'POST',
        headers: { authorization: `Bearer ${home.apiKey}`, 'content-type': 'application/json' },
      },
      JSON.stringify({ model: 'sim/large', stream, messages: [{ role: 'user', content: '!sim say=Safe.' }] }),
    );
  const [whole, streamed] = [await ask(false), await ask(true)];
  expect([whole.status, whole.text.includes('Safe.')]).toEqual([200, true]);
  expect([streamed.status, streamed.text.includes('[DONE]')]).toEqual([200, true]);
  await expect(fetch(`http://127.0.0.1:${ports.edge}/readyz`)).rejects.toThrow();
});

test('the internal listener requires a client certificate of the configured authority, over HTTP/2 and HTTP/1.1', async () => {
  const baseUrl = `https://127.0.0.1:${ports.rpc}`;
  const health = (nodeOptions: object) => createClient(Health, createGrpcTransport({ baseUrl, nodeOptions })).check({});
  expect(await health(asClient)).toMatchObject({ status: Status.SERVING });
  await expect(health({ ca })).rejects.toThrow();
  expect((await get({ port: ports.rpc, path: '/readyz', ...asClient })).status).toBe(200);
  await expect(get({ port: ports.rpc, path: '/readyz', ca })).rejects.toThrow();
  await expect(fetch(`http://127.0.0.1:${ports.rpc}/readyz`)).rejects.toThrow();
});

test('the operator’s commands use the socket, which only its owner can open; they are not available at the port', async () => {
  const socket = join(home.dataDir, 'operator.sock');
  expect(statSync(socket).mode & 0o777).toBe(0o600);
  const listed = await runCommand(home, ['accounts', 'list', '--json']);
  expect([listed.code, listed.stderr]).toEqual([0, '']);
  const token = readFileSync(join(home.dataDir, 'operator.token'), 'utf8').trim();
  const reply = await get(
    {
      port: ports.rpc,
      path: '/tollgate.v1.AdminService/ListAccounts',
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...asClient,
    },
    '{}',
  );
  expect(reply.status).toBe(404);
});

test('a renewed certificate is used within seconds; a certificate that does not match its key changes nothing; open connections continue', async () => {
  const open = connectHttp2(`https://127.0.0.1:${ports.rpc}`, asClient);
  onTestFinished(() => open.destroy());
  expect([await nameAt(ports.edge), await nameAt(ports.rpc)]).toEqual(['first', 'first']);
  copyFileSync(join(fixtures, 'second.cert.pem'), join(home.folder, 'tls/cert.pem'));
  await expect.poll(() => running.output.stderr).toContain('certificate can’t be used');
  expect(await nameAt(ports.edge)).toBe('first');
  install('second');
  const names = async () => [await nameAt(ports.edge), await nameAt(ports.rpc)];
  await expect.poll(names).toEqual(['second', 'second']);
  const stream = open.request({ ':path': '/readyz' });
  expect(Buffer.concat(await Array.fromAsync<Buffer>(stream)).toString()).toContain('ready');
  install('first');
  running.child.kill('SIGHUP');
  await expect.poll(names).toEqual(['first', 'first']);
});

test('a certificate that can’t be read prevents the start, and the error names its configuration key', async () => {
  const other = makeHome();
  const config = join(other.folder, 'gateway.yaml');
  writeFileSync(config, 'rpc: { tls: { cert: /nowhere/cert.pem, key: /nowhere/key.pem } }\n');
  const { code, stderr } = await runCommand(other, ['serve', '--config', config]);
  expect([code, stderr]).toEqual([2, expect.stringMatching(/gateway\.yaml: rpc\.tls: can’t be used: ENOENT/)]);
});
