import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { configJsonSchema } from '../../src/config/json-schema.ts';
import { root } from '../gateway.ts';

/** A node in the JSON Schema of the configuration. */
interface Node {
  readonly properties?: Readonly<Record<string, Node>>;
}

/** Keys in these sections that are not limits. */
const unbounded = ['rpc.admin', 'rpc.tls', 'rpc.tokens'];
const sections = ['limits', 'overload', 'rpc', 'batches', 'ledger'];

/** Returns the limits in the configuration, as `section.key`. */
function listBounds(): string[] {
  const { properties = {} } = configJsonSchema() as Node;
  const names = sections.flatMap(section =>
    Object.keys(properties[section]?.properties ?? {}).map(key => `${section}.${key}`),
  );
  return names.filter(name => !unbounded.includes(name));
}

test('each limit in the configuration is in the tables of docs/security.md, and a test sets it', () => {
  const bounds = listBounds();
  expect(bounds.length).toBeGreaterThan(30);
  const page = readFileSync(join(root, 'docs/security.md'), 'utf8');
  const undocumented = bounds.filter(name => !page.includes(`\`${name}\``));
  const folders = ['attacks', 'e2e', 'images', 'storage'];
  const tests = globSync(
    folders.map(folder => `${folder}/*.test.ts`),
    { cwd: join(root, 'test') },
  );
  const text = tests.map(path => readFileSync(join(root, 'test', path), 'utf8')).join('\n');
  const untested = bounds.filter(name => !new RegExp(`\\b${name.split('.')[1] ?? ''}:`).test(text));
  expect({ undocumented, untested }).toEqual({ undocumented: [], untested: [] });
});
