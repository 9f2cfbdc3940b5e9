/** The contract as `npm run pack:proto` writes it: a client that is generated from the archive alone, as docs/interfaces/rpc.md says, gets an answer. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { packProto } from '../../scripts/pack-proto.ts';
import { endGateway, root, run } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const gateway = await startGateway({});
const folder = mkdtempSync(join(tmpdir(), 'tollgate-contract-'));
afterAll(async () => {
  await endGateway(gateway);
  rmSync(folder, { recursive: true });
});

const page = readFileSync(join(root, 'docs/interfaces/rpc.md'), 'utf8');

test('a TypeScript client that is generated from the archive gets an answer', { timeout: 60_000 }, async () => {
  const archive = packProto(folder);
  expect(basename(archive)).toMatch(/^tollgate-proto-\d+\.\d+\.\d+\.tgz$/);
  const names = execFileSync('tar', ['-tzf', archive], { encoding: 'utf8' }).split('\n');
  expect(names).toEqual(expect.arrayContaining(['proto/tollgate/v1/generation.proto', 'buf.yaml', 'README.md']));
  execFileSync('tar', ['-xzf', archive, '-C', folder]);
  expect(readFileSync(join(folder, 'README.md'), 'utf8')).toContain('### Python');
  // The packages that the page installs.
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  const template = /npx buf generate --template '(.*)'/.exec(page)?.[1] ?? expect.fail('no command');
  execFileSync(join(root, 'node_modules/.bin/buf'), ['generate', '--template', template], {
    cwd: folder,
    env: { PATH: `${join(root, 'node_modules/.bin')}:${process.env['PATH'] ?? ''}` },
  });
  const [, program = expect.fail('no program')] = /```ts\n([\s\S]*?)```/.exec(page) ?? [];
  writeFileSync(join(folder, 'client.ts'), program.replace('http://127.0.0.1:9090', gateway.rpcUrl));
  const { ended } = run([process.execPath, 'client.ts'], {
    cwd: folder,
    env: { PATH: process.env['PATH'] ?? '', TOLLGATE_API_KEY: gateway.apiKey },
  });
  const { code, stdout, stderr } = await ended;
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toContain("case: 'delta'");
  expect(stdout).toContain("case: 'completed'");
});
