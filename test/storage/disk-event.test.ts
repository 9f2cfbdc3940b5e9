import { expect, test } from 'vitest';
import type { LiveConfig } from '../../src/gateway/live-config.ts';
import { StorageHealth } from '../../src/gateway/storage-health.ts';
import { openWebhooks } from '../../src/gateway/webhooks.ts';
import { SealedBox } from '../../src/lib/sealed-box.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { openFixture } from '../ledger/fixture.ts';

test('a disk with less than a twentieth free is reported to the operator’s webhook, and to no account’s', async () => {
  const fixture = await openFixture();
  const { ledger } = fixture;
  const logger = createLogger({ level: 'silent' });
  const free = { bavail: 40, blocks: 1000, bsize: 1 << 20 };
  const health = new StorageHealth({ dataDir: fixture.dataDir, logger, readSpace: async () => free });
  const live = { current: { webhooks: { allowPrivate: false } } } as LiveConfig;
  const box = new SealedBox(['secret']);
  const { deliveries } = openWebhooks({ ledger, live, logger, health, box, isShared: false });
  const hook = { url: 'https://a.invalid/', secret: box.seal(Buffer.from('s'), 'webhook'), disabled: false };
  const own = await ledger.createWebhook({ ...hook, accountId: 0, events: ['disk.low'] });
  const account = await ledger.createWebhook({ ...hook, accountId: 1, events: ['limit.threshold'] });
  if (typeof own === 'string' || typeof account === 'string') throw new Error('no webhook');
  try {
    await deliveries.start();
    await health.start();
    const page = { limit: 10, offset: 0 };
    const read = (webhookId: number) => ledger.listDeliveries({ webhookId, ...page });
    await expect.poll(async () => (await read(own.webhookId)).length).toBe(1);
    expect(await read(own.webhookId)).toMatchObject([
      { type: 'disk.low', data: JSON.stringify({ free_bytes: 40 << 20 }) },
    ]);
    expect(await read(account.webhookId)).toEqual([]);
  } finally {
    deliveries.stop();
    health.close();
    await fixture.end();
  }
});
