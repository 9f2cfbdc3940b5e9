import { test } from 'vitest';
import { killConversations } from '../e2e/responses-kills.ts';

test('after 15 kills in the middle of conversations, what clients received is stored, and the rest is free', async () => {
  await killConversations(15);
});
