import { expect, test } from 'vitest';
import { loadConfig } from '../../config/config.ts';
import { readEnvironment } from '../../config/env.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { shareLimits } from './share-limits.ts';

test('the gateway’s limits are divided among its threads, and each provider keeps at least one call per thread', () => {
  const path = join(mkdtempSync(join(tmpdir(), 'tollgate-share-')), 'tollgate.yaml');
  const provider = (name: string, concurrency: number): string =>
    `  ${name}: { protocol: chat, base_url: "http://127.0.0.1:1", api_key: k, concurrency: ${concurrency} }\n`;
  writeFileSync(path, `providers:\n${provider('large', 10)}${provider('small', 2)}`);
  const config = loadConfig({ environment: readEnvironment({}), builtInIds: [], path });
  const shared = shareLimits(config, 3);
  expect(shared.providers.map(({ concurrency }) => concurrency?.slots)).toEqual([3, 1]);
  expect(shared.limits.bodyMemoryBytes).toBe(Math.floor(config.limits.bodyMemoryBytes / 3));
  expect(shareLimits(config, 1)).toBe(config);
});
