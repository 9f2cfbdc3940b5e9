/** Kills a gateway (kill -9) before, during and after the delivery of events, many times: each event arrives, always with the same id. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { endGateway, startGateway } from '../gateway.ts';
import { call, newKey } from './account-client.ts';
import { WebhookReceiver } from './webhook-receiver.ts';

const config = 'simulator: { enabled: true }\nwebhooks: { allow_private: true }\n';

/** Kills a gateway `times` times. Returns how many events arrived, and in how many deliveries. */
export async function killAroundDelivery(times: number): Promise<{ events: number; deliveries: number }> {
  const receiver = new WebhookReceiver();
  await receiver.open();
  let gateway = await startGateway({ config });
  const made = await call<{ data: { secret: string } }>(gateway, 'POST', '/webhooks', { body: { url: receiver.url } });
  receiver.secret = made.body.data.secret;
  const labels: string[] = [];
  for (let round = 0; round < times; round++) {
    const label = `round ${round}`;
    await newKey(gateway, { label });
    labels.push(label);
    // The kills fall before, during and after the delivery.
    await sleep([0, 900, 1_000, 1_010, 1_050][round % 5]);
    await gateway.kill();
    gateway = await startGateway({ home: gateway.home, config });
  }
  await expect
    .poll(() => new Set(receiver.received.map(({ data }) => data['label'])).size, { timeout: 60_000 })
    .toBe(times);
  const ids = Map.groupBy(receiver.received, ({ data }) => data['label']);
  expect(labels.map(label => new Set(ids.get(label)?.map(({ id }) => id)).size)).toEqual(labels.map(() => 1));
  expect(receiver.refused).toEqual([]);
  await receiver.close();
  await endGateway(gateway);
  return { events: new Set(receiver.received.map(({ id }) => id)).size, deliveries: receiver.received.length };
}
