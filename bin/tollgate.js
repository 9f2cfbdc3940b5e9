#!/usr/bin/env -S node
// The command line: of a checkout, whose TypeScript the pinned Node.js runs as it is, or of a package that was built.
import module from 'node:module';
import process from 'node:process';

// A start reads 30,000 lines of TypeScript: without the cache a third of a second more. It is enabled before the first of them is loaded,
// because for a file that is not in the cache Node.js loads a compiler, which stays in memory (15 MB). Old versions of Node.js, which
// `main.ts` refuses, do not have it.
module.enableCompileCache?.();
try {
  await import('../src/main.ts');
} catch (error) {
  if (!(error instanceof Error) || !('code' in error) || error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
  process.exitCode = undefined;
  await import('../dist/main.js');
}
