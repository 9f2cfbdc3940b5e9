import type { MessageInitShape } from '@bufbuild/protobuf';
import * as z from 'zod';
import { flag } from '../codecs/schema.ts';
import type { UpdateOwnAccountRequestSchema } from '../gen/tollgate/v1/account_pb.ts';
import type { WebhookSettingsSchema } from '../gen/tollgate/v1/webhook_pb.ts';
import { exactDollars, lowBalanceField, readBody } from './account-schema.ts';
import type { JsonBody } from './json-body.ts';

/** The bodies that make and change webhooks, and what an account is told of. Source: control.md, "Alerts". */

const typesMax = 100;
const typeList = 'must be an array of types of events';

const settings = z.strictObject(
  {
    url: z.string('must be an address').optional(),
    events: z.array(z.string('must be a string'), typeList).max(typesMax, typeList).optional(),
    disabled: flag.optional(),
  },
  'must be an object',
);

/** The settings that a body names. Throws `validation_error` with a violation for every wrong or unknown field. */
export function readWebhookSettings(body: JsonBody): MessageInitShape<typeof WebhookSettingsSchema> {
  const { url, events, disabled } = readBody(settings, body, 'a webhook');
  return { url, disabled, events: events && { types: events } };
}

const accountChange = z.strictObject({ low_balance: lowBalanceField }, 'must be an object');

/** What a body changes of the account. */
export function readAccountChange(body: JsonBody): MessageInitShape<typeof UpdateOwnAccountRequestSchema> {
  const { low_balance: low } = readBody(accountChange, body, 'an account that can change');
  return {
    lowBalanceNanoUsd: typeof low === 'number' ? exactDollars(body, 'low_balance') : undefined,
    noLowBalance: low === null,
  };
}
