/** `npm run build` compiles `src` to JavaScript in `dist` and builds the dashboard. Packages need this, because Node.js runs no TypeScript below `node_modules`; `npm pack` does it first. */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, globSync, readdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { buildDashboard } from './build-dashboard.ts';

const root = resolve(import.meta.dirname, '..');
const dist = join(root, 'dist');

// The build of the dashboard is kept, because `buildDashboard` rebuilds it if necessary.
const stale = existsSync(dist) ? readdirSync(dist).filter(name => !name.startsWith('dashboard')) : [];
for (const name of stale) rmSync(join(dist, name), { recursive: true, force: true });
const { status, error } = spawnSync(
  process.execPath,
  [join(root, 'node_modules/typescript/bin/tsc'), '--project', join(root, 'tsconfig.build.json')],
  { cwd: root, stdio: 'inherit' },
);
if (error !== undefined || status !== 0) {
  console.error(error ?? 'The build failed.');
  process.exit(1);
}
// Files beside the modules that are not modules, like migrations.
for (const file of globSync('**/*.sql', { cwd: join(root, 'src') })) cpSync(join(root, 'src', file), join(dist, file));
await buildDashboard();
