#!/usr/bin/env -S node
import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import process, { argv, env, exit } from 'node:process';
import { setFlagsFromString } from 'node:v8';

// Only for a gateway: with other flags than its defaults V8 refuses the compiled code in the program of Node.js, whose modules are then compiled again, which takes a tenth of the time of a command.
if (argv[2] === 'serve') {
  // Keeps the young generation small while modules are loaded. The objects of loading stay alive, and a young generation that had grown for them would never shrink, which takes 20 MB in an idle gateway. `serve` lets it grow when the gateway is ready.
  setFlagsFromString('--semi-space-growth-factor=1');
  // Disables pretenuring: if objects of an allocation site have lived long, V8 allocates later ones directly in the old generation. It would learn that from objects of the start. Later, dead old objects of one request would keep those of the next alive, which takes 16 kB for each answer instead of 0.5.
  setFlagsFromString('--no-allocation-site-pretenuring');
}
// Worker threads find the cache of compiled code, which `bin/load.js` has enabled, only through this variable. Without it each thread would strip the types again, which takes 30 MB and 60 ms.
const cache = getCompileCacheDir();
if (cache !== undefined) env['NODE_COMPILE_CACHE'] ??= dirname(cache);
const { runCommandLine } = await import('./gateway/command-line.ts');
process.exitCode = await runCommandLine();
// Ends the process even if something is still open: a failed command may have opened a part of a gateway, and libraries may keep resources open.
if (process.exitCode !== 0) exit();
setTimeout(() => exit(), 2_000).unref();
