#!/usr/bin/env -S node
// The command line: of a checkout, whose TypeScript the pinned Node.js runs as it is, or of a package that was built.
import process from 'node:process';

try {
  await import('../src/main.ts');
} catch (error) {
  if (!(error instanceof Error) || !('code' in error) || error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
  process.exitCode = undefined;
  await import('../dist/main.js');
}
