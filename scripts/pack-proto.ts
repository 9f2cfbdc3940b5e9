/**
 * Writes `tollgate-proto-VERSION.tgz` (`npm run pack:proto [-- FOLDER]`): the contract, for making clients in any language without a checkout. FOLDER: where to write it
 * (default: the checkout). Prints its path.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '..');
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };

/** Writes the archive into a folder. Returns its path. */
export function packProto(folder: string): string {
  const target = resolve(folder, `tollgate-proto-${version}.tgz`);
  const staging = mkdtempSync(join(tmpdir(), 'tollgate-proto-'));
  try {
    cpSync(join(root, 'proto'), join(staging, 'proto'), { recursive: true });
    for (const name of ['buf.yaml', 'LICENSE']) cpSync(join(root, name), join(staging, name));
    writeFileSync(join(staging, 'README.md'), readme());
    execFileSync('tar', ['-czf', target, '-C', staging, 'LICENSE', 'README.md', 'buf.yaml', 'proto']);
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
  return target;
}

/** Returns the section "Clients" of docs/interfaces/rpc.md, so that the commands exist once. */
function readme(): string {
  const page = readFileSync(join(root, 'docs/interfaces/rpc.md'), 'utf8');
  const [, rest = ''] = page.split('\n## Clients from the contract\n');
  const [section = ''] = rest.split('\n## ');
  return `# The contract of Tollgate ${version}\n${section.trimEnd()}\n`;
}

if (import.meta.main) console.log(packProto(process.argv[2] ?? root));
