/** `npm run build`: compiles `src` to JavaScript in `dist`, for packages: Node.js runs no TypeScript below `node_modules`. `npm pack` does it first. */
import { spawnSync } from 'node:child_process';
import { cpSync, globSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '..');
const dist = join(root, 'dist');

rmSync(dist, { recursive: true, force: true });
const { status, error } = spawnSync(
  process.execPath,
  [join(root, 'node_modules/typescript/bin/tsc'), '--project', join(root, 'tsconfig.build.json')],
  { cwd: root, stdio: 'inherit' },
);
if (error !== undefined || status !== 0) {
  console.error(error ?? 'The build failed.');
  process.exit(1);
}
// What is no module, but is read beside one.
for (const file of globSync('**/*.sql', { cwd: join(root, 'src') })) cpSync(join(root, 'src', file), join(dist, file));
