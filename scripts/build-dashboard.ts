/**
 * Builds the web app of `src/dashboard` into `dist/dashboard` if its sources have changed since the last build.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { hashSources } from './hash-sources.ts';

const root = resolve(import.meta.dirname, '..');
const stamp = join(root, 'dist/dashboard.stamp');

/** Returns a hash of all sources of the bundle. */
function fingerprint(): string {
  const entries = ['src/dashboard', 'src/gen'].flatMap(folder =>
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true }),
  );
  return hashSources(entries.filter(entry => entry.isFile()).map(entry => join(entry.parentPath, entry.name)));
}

/** Builds the dashboard unless the existing build is current. Without Vite (`npm ci --omit=dev`) or without the sources (while an image is built), it keeps the existing build. */
export async function buildDashboard(): Promise<void> {
  if (!existsSync(join(root, 'src/dashboard'))) return;
  const current = fingerprint();
  const isBuilt = existsSync(join(root, 'dist/dashboard/index.html'));
  if (isBuilt && existsSync(stamp) && readFileSync(stamp, 'utf8') === current) return;
  if (!existsSync(join(root, 'node_modules/vite'))) {
    const state = isBuilt ? 'may be out of date' : 'is not built';
    console.error(`The dashboard ${state}: building it needs the development packages (npm ci without --omit=dev).`);
    return;
  }
  const { build } = await import('vite');
  const began = performance.now();
  await build({ configFile: join(root, 'src/dashboard/vite.config.ts'), logLevel: 'error' });
  writeFileSync(stamp, current);
  // Printed on standard error, because standard output belongs to `npm pack --json`.
  console.error(`Dashboard built (${((performance.now() - began) / 1000).toFixed(1)} s).`);
}
