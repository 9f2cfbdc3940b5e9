import { test } from 'vitest';
import { killConversations } from '../e2e/responses-kills.ts';

test('a gateway that is killed in the middle of conversations, 15 times: what clients got stays, the rest is free', async () => {
  await killConversations(15);
});
