import { globSync } from 'node:fs';
import { join } from 'node:path';
import type { DescMessage, DescService } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { directServices } from './direct-services.ts';

const generated = join(import.meta.dirname, '../gen');

/** Returns all services of the contract. */
async function listServices(): Promise<DescService[]> {
  const paths = globSync('**/*_pb.ts', { cwd: generated });
  const modules = await Promise.all(paths.map(path => import(join(generated, path)) as Promise<object>));
  const isService = (value: { kind?: string }): value is DescService => value.kind === 'service';
  return modules.flatMap(module => Object.values(module) as { kind?: string }[]).filter(isService);
}

/** Returns whether an answer has the fields by which a charged request of a direct endpoint is reported. */
function isCharged({ fields }: DescMessage): boolean {
  return ['cost_nano_usd', 'route', 'warnings'].every(name => fields.some(field => field.name === name));
}

test('the list has every service whose answer comes whole, with its cost', async () => {
  const services = await listServices();
  expect(services.length).toBeGreaterThan(10);
  const charging = services.filter(({ methods }) =>
    methods.some(({ methodKind, output }) => methodKind === 'unary' && isCharged(output)),
  );
  expect(charging.map(({ name }) => name).toSorted()).toEqual(directServices.map(({ name }) => name).toSorted());
});
