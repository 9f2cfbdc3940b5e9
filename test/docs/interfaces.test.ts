/** docs/interfaces has every public path and every service; docs/security.md has the bounds of every service with large messages. */
import { expect, test } from 'vitest';
import { contentServices } from '../../src/rpc/message-bounds.ts';
import { files, read } from './files.ts';

test('docs/interfaces/README.md lists every public path', () => {
  const [, section = ''] = read('docs/interfaces/README.md').split('\n## Paths\n');
  const [table = ''] = section.split('\n## ');
  const { paths } = JSON.parse(read('docs/openapi.json')) as { paths: object };
  // The table shortens what follows a parameter: `GET …/{id}/items`.
  const beginnings = new Set(
    Object.keys(paths)
      .filter(path => /^\/v\d\//.test(path))
      .map(path => path.replace(/\/\{.*/, '')),
  );
  expect(beginnings.size).toBeGreaterThan(20);
  expect([...beginnings].filter(path => !new RegExp(`${path}(?![a-z_])`).test(table))).toEqual([]);
});

test('docs/interfaces/rpc.md names every service of the contract', () => {
  const contracts = files.filter(path => path.startsWith('proto/tollgate/'));
  const services = contracts.flatMap(path =>
    Array.from(read(path).matchAll(/^service (\w+)/gm), ([, name = '']) => name),
  );
  expect(services.length).toBeGreaterThan(10);
  const page = read('docs/interfaces/rpc.md');
  expect(services.filter(name => !page.includes(`\`${name}\``))).toEqual([]);
});

test('docs/security.md lists the bounds of every service with large messages', () => {
  const rows = read('docs/security.md')
    .split('\n')
    .filter(line => line.startsWith('| message of '))
    .join();
  expect(contentServices.filter(({ name }) => !rows.includes(name)).map(({ name }) => name)).toEqual([]);
});
