/**
 * Writes src/gen from proto/ (`npm run generate`). With `--check`, generates into a temporary folder and exits with 1 if src/gen
 * differs, because the committed code may be out of date.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '..');
const generated = join(root, 'src/gen');

/** Proto files of gRPC in npm packages, by the canonical name under which reflection clients know them. */
const borrowed = {
  'grpc/health/v1/health.proto': 'node_modules/grpc-health-check/proto/health/v1/health.proto',
  'grpc/reflection/v1/reflection.proto':
    'node_modules/@grpc/reflection/build/proto/grpc/reflection/v1/reflection.proto',
  'grpc/reflection/v1alpha/reflection.proto':
    'node_modules/@grpc/reflection/build/proto/grpc/reflection/v1alpha/reflection.proto',
} as const;

/** Copies the proto files of gRPC. Unchanged files are not written, so that two runs at once do not disturb each other. */
function layOutBorrowed(): void {
  for (const [name, source] of Object.entries(borrowed)) {
    const target = join(root, 'node_modules/.cache/tollgate/proto', name);
    const content = readFileSync(join(root, source), 'utf8');
    if (existsSync(target) && readFileSync(target, 'utf8') === content) continue;
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, content);
  }
}

/** Runs `buf generate`. `prefix`: the folder to which the output paths in buf.gen.yaml are relative. */
function generateInto(prefix: string): void {
  layOutBorrowed();
  const { status, error } = spawnSync(join(root, 'node_modules/.bin/buf'), ['generate', '--output', prefix], {
    cwd: root,
    stdio: 'inherit',
  });
  if (error !== undefined) throw error;
  if (status !== 0) process.exit(status ?? 1);
}

/** Returns the content of every file below `folder`, by its relative path. */
function filesBelow(folder: string): Map<string, string> {
  if (!existsSync(folder)) return new Map();
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter(entry => entry.isFile());
  return new Map(
    entries.map(entry => {
      const path = join(entry.parentPath, entry.name);
      return [path.slice(folder.length + 1), readFileSync(path, 'utf8')];
    }),
  );
}

/** Returns the paths whose content differs or that exist on only one side. */
function differences(left: Map<string, string>, right: Map<string, string>): string[] {
  return [...new Set([...left.keys(), ...right.keys()])].filter(path => left.get(path) !== right.get(path)).sort();
}

if (process.argv.includes('--check')) {
  const temporary = mkdtempSync(join(tmpdir(), 'tollgate-generate-'));
  try {
    generateInto(temporary);
    const stale = differences(filesBelow(generated), filesBelow(join(temporary, 'src/gen')));
    if (stale.length > 0) {
      console.error(
        `src/gen is not what proto/ generates; run "npm run generate". Differing:\n  ${stale.join('\n  ')}`,
      );
      process.exitCode = 1;
    }
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
} else {
  generateInto(root);
  // Imported on demand, because its modules need the code that was just generated.
  const { writeCommandLineDoc } = await import('./command-line-doc.ts');
  await writeCommandLineDoc();
}
