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
  // The keys of the first start are not in the log of the container, and the command line is on its PATH, although it has no shell.
  expect(read('Dockerfile')).toContain('TOLLGATE_BOOTSTRAP_FILE=/var/lib/tollgate/first-keys');
  const copied = lines.find(line => line.includes('/usr/local/bin/tollgate'));
  expect(copied).toMatch(/--chmod=0755 \S+deploy\/docker\/tollgate /);
  expect(read('deploy/docker/tollgate').split('\n', 1)).toEqual(['#!/nodejs/bin/node']);
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
  for (const commented of ['# TOLLGATE_RPC_HOST: 0.0.0.0', "# - '127.0.0.1:9090:9090'"]) {
    expect(read('compose.yaml').replaceAll('"', "'")).toContain(commented);
  }
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
  const render = (...set: string[]) =>
    spawnSync('helm', ['template', 'release', chart, ...set.flatMap(value => ['--set', value])], {
      encoding: 'utf8',
      env: { ...process.env, HOME: home },
    });
  const image = 'image.repository=registry.example/tollgate';
  const optional = ['internal', 'serviceMonitor', 'podDisruptionBudget', 'topologySpread', 'ingress'];
  const { status, stdout, stderr } = render(image, ...optional.map(name => `${name}.enabled=true`));
  const refusals = [render().stderr, render(image, 'serviceMonitor.enabled=true').stderr];
  rmSync(home, { recursive: true, force: true });
  expect([status, stderr]).toEqual([0, '']);
  const kinds = ['StatefulSet', 'Service', 'ServiceMonitor', 'PodDisruptionBudget', 'Ingress', 'ConfigMap'];
  for (const kind of kinds) expect(stdout).toContain(`kind: ${kind}\n`);
  expect(stdout).toContain('name: release-internal');
  // The ingress has only the public listener.
  expect(/kind: Ingress[\s\S]*?(?=\n---|$)/.exec(stdout)?.[0]).not.toContain('internal');
  expect(refusals[0]).toContain('Set image.repository');
  expect(refusals[1]).toContain('needs internal.enabled');
});
