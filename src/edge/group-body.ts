import type { MessageInitShape } from '@bufbuild/protobuf';
import * as z from 'zod';
import { textUpTo } from '../codecs/schema.ts';
import type { GroupSettingsSchema } from '../gen/tollgate/v1/account_pb.ts';
import { amountMax, exactDollars, idField, lowBalanceField, readBody, tagsField } from './account-schema.ts';
import type { JsonBody } from './json-body.ts';

/** The body that makes or changes a group. Source: docs/interfaces/account.md "Groups". */

const amount = `must be a number of dollars from 0 to ${amountMax}, or null for none of its own`;

/** The fields of a body that makes or changes a group. */
export const groupSettingsSchema = z.strictObject(
  {
    name: textUpTo(200).optional(),
    parent_group_id: idField.nullable().optional(),
    tags: tagsField.nullable().optional(),
    low_balance: lowBalanceField,
    balance: z.number(amount).min(0, amount).max(amountMax, amount).nullable().optional(),
  },
  'must be an object',
);

/** Reads the settings in a body. Throws `validation_error` with a violation for every wrong or unknown field. */
export function readGroupSettings(body: JsonBody): MessageInitShape<typeof GroupSettingsSchema> {
  const { name, parent_group_id, tags, balance, low_balance: low } = readBody(groupSettingsSchema, body, 'a group');
  return {
    name,
    parentGroupId: parent_group_id ?? undefined,
    noParent: parent_group_id === null,
    tags: tags === null ? { tags: {} } : tags,
    balanceNanoUsd: typeof balance === 'number' ? exactDollars(body, 'balance') : undefined,
    noBalance: balance === null,
    lowBalanceNanoUsd: typeof low === 'number' ? exactDollars(body, 'low_balance') : undefined,
    noLowBalance: low === null,
  };
}
