import { expect, test } from 'vitest';
import { killAroundDelivery } from '../e2e/webhook-kills.ts';

test('after each of 100 kills around the delivery the event arrives, always with the same id', async () => {
  const { events, deliveries } = await killAroundDelivery(100);
  console.log(`${events} events came in ${deliveries} deliveries`);
  expect(events).toBe(100);
});
