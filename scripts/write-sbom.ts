/**
 * Writes dist/sbom.cdx.json, the bill of materials of a package or an image in the format CycloneDX, with npm's own generator: the libraries that the gateway needs to run.
 * Run by `npm pack` and by the Dockerfile.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import process from 'node:process';

const root = resolve(import.meta.dirname, '..');
const own = process.env['npm_execpath'];
const [program, before] = own === undefined ? ['npm', []] : [process.execPath, [own]];
const arguments_ = ['sbom', '--sbom-format', 'cyclonedx', '--sbom-type', 'application', '--omit', 'dev'];
writeFileSync(join(root, 'dist/sbom.cdx.json'), execFileSync(program, [...before, ...arguments_], { cwd: root }));
