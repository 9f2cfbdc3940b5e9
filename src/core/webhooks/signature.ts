import { createHmac, randomBytes } from 'node:crypto';

/** Signs messages as Standard Webhooks specifies (version 1.0.0, symmetric signatures): HMAC-SHA256 of id, time and body. */

const prefix = 'whsec_';

/** Returns a new secret, in the form that its owner gets. */
export function makeWebhookSecret(): string {
  return prefix + randomBytes(32).toString('base64');
}

/** The content that is signed. */
export interface SignedContent {
  /** `evt_…`. */
  readonly id: string;
  readonly nowMs: number;
  readonly body: string;
}

/** Returns the headers that sign a message. */
export function signWebhook(secret: string, { id, nowMs, body }: SignedContent): Record<string, string> {
  const timestamp = String(Math.floor(nowMs / 1000));
  const key = Buffer.from(secret.slice(prefix.length), 'base64');
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` };
}
