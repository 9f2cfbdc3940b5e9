/** Checks the deployment files, as far as possible on a machine without a container engine, a cluster or systemd. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { root } from '../gateway.ts';

const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const has = (program: string): boolean => spawnSync(program, ['--version']).error === undefined;

test('the Dockerfile copies existing files, does not run as root, and has a health check and a data volume', () => {
  const lines = read('Dockerfile')
    .split('\n')
    .filter(line => /^[A-Z]/.test(line));
  const words = lines.map(line => line.split(/\s+/, 1)[0]);
  expect(words).toEqual(
    expect.arrayContaining(['USER', 'HEALTHCHECK', 'VOLUME', 'EXPOSE', 'STOPSIGNAL', 'ENTRYPOINT']),
  );
  expect(lines.find(line => line.startsWith('USER'))).not.toMatch(/\broot$/);
  // The base images have exact versions.
  for (const line of lines.filter(each => each.startsWith('FROM'))) expect(line).toMatch(/:[\w.-]+|nodejs\d+/);
});

test('compose starts the container read-only, without privileges, and with enough time to stop', () => {
  const { services } = parse(read('compose.yaml')) as { services: Record<string, Record<string, unknown>> };
  expect(services['tollgate']).toMatchObject({
    read_only: true,
    cap_drop: ['ALL'],
    security_opt: ['no-new-privileges:true'],
    stop_grace_period: '60s',
  });
});

test('the cluster has three gateways on one database behind a proxy that checks whether they are ready', () => {
  const { services } = parse(read('deploy/cluster/compose.yaml')) as {
    services: Record<string, Record<string, unknown>>;
  };
  expect(Object.keys(services)).toEqual(['postgres', 'tollgate', 'proxy']);
  expect(services['tollgate']).toMatchObject({ read_only: true, cap_drop: ['ALL'], deploy: { replicas: 3 } });
  expect(read('deploy/cluster/haproxy.cfg')).toContain('server-template gateway 3 tollgate:8080');
});

test('the systemd unit runs as a separate user, can write only its data, and systemd accepts it', () => {
  const unit = read('deploy/systemd/tollgate.service');
  for (const line of ['User=tollgate', 'ProtectSystem=strict', 'NoNewPrivileges=yes', 'StateDirectory=tollgate']) {
    expect(unit).toContain(`\n${line}\n`);
  }
  if (!has('systemd-analyze')) return;
  const { status, stderr } = spawnSync('systemd-analyze', ['verify', join(root, 'deploy/systemd/tollgate.service')], {
    encoding: 'utf8',
  });
  expect([status, stderr]).toEqual([0, '']);
});

test('the Helm chart has every value that a template reads and one gateway for the ledger, and helm accepts it', () => {
  const chart = join(root, 'deploy/helm/tollgate');
  const values = parse(read('deploy/helm/tollgate/values.yaml')) as Record<string, unknown>;
  const templates = readdirSync(join(chart, 'templates')).map(name =>
    readFileSync(join(chart, 'templates', name), 'utf8'),
  );
  const paths = templates.flatMap(text => Array.from(text.matchAll(/\.Values\.([\w.]+)/g), ([, path]) => path ?? ''));
  expect(paths.length).toBeGreaterThan(20);
  const missing = paths.filter(
    path =>
      path
        .split('.')
        .reduce<unknown>((value, name) => (value as Record<string, unknown> | undefined)?.[name], values) === undefined,
  );
  expect(missing).toEqual([]);
  expect(templates.join('')).toContain('replicas: 1\n');
  if (!has('helm')) return;
  const home = mkdtempSync(join(tmpdir(), 'tollgate-helm-'));
  const { status, stdout } = spawnSync('helm', ['template', 'release', chart, '--set', 'ingress.enabled=true'], {
    encoding: 'utf8',
    env: { ...process.env, HOME: home },
  });
  rmSync(home, { recursive: true, force: true });
  expect(status).toBe(0);
  expect(stdout).toContain('kind: StatefulSet');
});
