// Loads the bundle in dist, or in a checkout whose sources are newer, the TypeScript, which the pinned Node.js runs as it is.
import { readdirSync, statSync } from 'node:fs';
import module from 'node:module';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = resolve(fileURLToPath(import.meta.url), '../..');

/**
 * Returns when a file was written, in ms since 1970; 0: it does not exist.
 * @param {string} path
 */
function writtenAt(path) {
  // Not `join`, which takes as long as the call for each of a thousand sources.
  return statSync(`${root}/${path}`, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

/** Tells whether dist is newer than every source and library; true in a package, which has no sources. */
function isBundleCurrent() {
  const builtAt = writtenAt('dist/main.js');
  if (writtenAt('src') === 0) return true;
  if (builtAt < writtenAt('package-lock.json')) return false;
  return readdirSync(`${root}/src`, { recursive: true }).every(path => writtenAt(`src/${path.toString()}`) < builtAt);
}

// A start compiles 4 MB of JavaScript, or strips 30,000 lines of TypeScript: without the cache a third of a second more. It is enabled before the
// first of them is loaded, because for a TypeScript file that is not in the cache Node.js loads a compiler, which stays in memory (15 MB).
module.enableCompileCache();
if (isBundleCurrent()) await import('../dist/main.js');
else if (Number(process.versions.node.split('.')[0]) >= 26) await import('../src/main.ts');
else {
  process.stderr.write(
    `The sources need Node.js 26 or newer, and this is ${process.versions.node}: run \`npm start\` or \`npx tollgate\` in the checkout, where \`npm ci\` has installed it.\n`,
  );
  process.exitCode = 1;
}
