#!/usr/bin/env -S node
import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import process, { env, exit, stderr, versions } from 'node:process';
import { setFlagsFromString } from 'node:v8';

/** True in a built package, whose modules are JavaScript; false in a checkout. */
const isBuilt = import.meta.url.endsWith('.js');
/** better-sqlite3 ends the process without a word under an older Node, so the version is looked at before anything is loaded. */
const nodeMajorMin = isBuilt ? 22 : 26;
const advice = isBuilt
  ? 'Install a newer Node.js (https://nodejs.org), or run the container image.'
  : 'Start it with `npm start` or `npx tollgate` in the checkout: `npm ci` has installed the right one there.';

if (Number(versions.node.split('.')[0]) < nodeMajorMin) {
  stderr.write(`Tollgate needs Node.js ${nodeMajorMin} or newer; this is ${versions.node}.\n${advice}\n`);
  exit(1);
}

// Objects from loading stay alive: a young generation that grew for them would never shrink, 20 MB of an idle gateway. `serve` lets it grow
// when it is ready.
setFlagsFromString('--semi-space-growth-factor=1');
// If objects of a place in the code have lived long, V8 allocates later ones there as old objects at once. It would learn this from objects of the start; later, dead old objects of each request would keep those of the next alive: 16 kB of each answer instead of 0.5.
setFlagsFromString('--no-allocation-site-pretenuring');
// The cache of compiled code, which `bin/tollgate.js` has enabled. Worker threads find it in the environment only; without it each strips types anew, for 30 MB and 60 ms.
const cache = getCompileCacheDir();
if (cache !== undefined) env['NODE_COMPILE_CACHE'] ??= dirname(cache);
const { runCommandLine } = await import('./gateway/command-line.ts');
process.exitCode = await runCommandLine();
// A failed command may leave half of a gateway open; resources that a library keeps open must not keep the process alive.
if (process.exitCode !== 0) exit();
setTimeout(() => exit(), 2_000).unref();
