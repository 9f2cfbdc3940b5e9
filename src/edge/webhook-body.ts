import type { MessageInitShape } from '@bufbuild/protobuf';
import * as z from 'zod';
import { flag } from '../codecs/schema.ts';
import type { UpdateOwnAccountRequestSchema } from '../gen/tollgate/v1/account_pb.ts';
import type { WebhookSettingsSchema } from '../gen/tollgate/v1/webhook_pb.ts';
import { exactDollars, lowBalanceField, readBody } from './account-schema.ts';
import type { JsonBody } from './json-body.ts';

/**
 * The bodies that make and change webhooks and the account's settings. Source: docs/interfaces/account.md "Webhooks".
 */

const typesMax = 100;
const typeList = 'must be an array of types of events';

/** The fields of a body that makes or changes a webhook. */
export const webhookSettingsSchema = z.strictObject(
  {
    url: z.string('must be an address').optional(),
    events: z.array(z.string('must be a string'), typeList).max(typesMax, typeList).optional(),
    disabled: flag.optional(),
  },
  'must be an object',
);

/** Reads the settings in a body. Throws `validation_error` with a violation for every wrong or unknown field. */
export function readWebhookSettings(body: JsonBody): MessageInitShape<typeof WebhookSettingsSchema> {
  const { url, events, disabled } = readBody(webhookSettingsSchema, body, 'a webhook');
  return { url, disabled, events: events && { types: events } };
}

/** The fields of a body that changes the account. */
export const accountChangeSchema = z.strictObject({ low_balance: lowBalanceField }, 'must be an object');

/** Reads the changes to an account. */
export function readAccountChange(body: JsonBody): MessageInitShape<typeof UpdateOwnAccountRequestSchema> {
  const { low_balance: low } = readBody(accountChangeSchema, body, 'an account that can change');
  return {
    lowBalanceNanoUsd: typeof low === 'number' ? exactDollars(body, 'low_balance') : undefined,
    noLowBalance: low === null,
  };
}
