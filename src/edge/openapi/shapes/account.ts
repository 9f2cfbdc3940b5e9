import * as z from 'zod';
import { groupSettingsSchema } from '../../group-body.ts';
import { keySettingsSchema, rotationSchema } from '../../account-body.ts';
import { limitChangeSchema, newLimitSchema } from '../../limit-body.ts';
import { named } from '../json-schema.ts';
import { anyObject, count, dollars, id, tags, time } from './fields.ts';

/** The bodies and answers of the account's paths. Source: docs/interfaces/account.md. */

const keyFields = {
  label: 'A name for people, at most 200 characters.',
  daily_limit:
    'The maximum per UTC day, in dollars, or in requests if the operator has configured that. 0 or null: no limit.',
  minute_limit: 'The most requests in 60 seconds. 0 or null: no limit.',
  allowed_models: 'The ids of the models that the key may use; null: all.',
  balance: 'The key’s own balance in dollars, moved out of the account’s; null: its group or the account pays.',
  use_subs_first: 'Whether the plan pays before balances do.',
  fallback_to_payg: 'Whether balances pay when the plan is used up.',
  expires_at: 'When the key stops working; null: never.',
  group_id: 'Its group; null: none.',
  tags: 'Tags by which the key’s requests are counted, at most 8.',
  metadata: 'A JSON object of your own, at most 4 KiB, never sent to a provider.',
  low_balance: 'The balance in dollars below which the event `balance.low` is sent; null: never.',
  keep_bodies: 'The requests whose bodies are stored; null: as the operator has configured.',
  paused: 'Whether the account has paused the key: its requests are refused.',
};

/** The body that makes or changes a key. */
export const keySettings = named('KeySettings', keySettingsSchema, keyFields);
/** The body that rotates a key. */
export const rotation = named('KeyRotation', rotationSchema, {
  overlap_seconds: 'For how many seconds the old secret stays valid: 0 to 30 days.',
});

const limitFields = {
  scope: 'What is limited: the account, or a group or key by its id.',
  unit: 'What is counted.',
  window: 'The period: the last 60 seconds, a period of the calendar, or for ever (`total`). Absent with `concurrent`.',
  max: 'The most: dollars of `usd`, else a count. 0 refuses all.',
  time_zone: 'The time zone of the calendar, an IANA name; default `UTC`.',
  models: 'The ids and patterns (`*`) of the models whose requests are counted and limited; null: all.',
  end_users: 'Whether all end users are counted together, or each separately.',
  action: 'Whether requests are refused when the limit is reached, or only an event is sent.',
  raised: 'A temporary maximum; null: none.',
};
/** The body that makes a limit. */
export const newLimit = named('NewLimit', newLimitSchema, limitFields);
/** The body that changes a limit. */
export const limitChange = named(
  'LimitChange',
  limitChangeSchema.omit({ scope: true, unit: true, window: true }),
  limitFields,
);
/** The body that makes or changes a group. */
export const groupSettings = named('GroupSettings', groupSettingsSchema, {
  name: 'A name for people.',
  parent_group_id: 'The parent group; null: none. Groups are nested at most 5 deep.',
  tags: 'Tags by which the requests of its keys are counted.',
  balance: 'The group’s own balance in dollars, moved out of the account’s; null: none.',
  low_balance: 'The balance in dollars below which the event `balance.low` is sent; null: never.',
});

const apiKey = named(
  'ApiKey',
  z.object({
    api_key_id: id.describe('The number of the key.'),
    key: z.string().describe('The key, masked except in the answer that creates or rotates it.'),
    created_at: time.describe('When it was made.'),
    label: z.string().describe('A name for people.'),
    daily_limit: count.nullable().describe(keyFields.daily_limit),
    minute_limit: count.nullable().describe(keyFields.minute_limit),
    monthly_limit: dollars
      .nullable()
      .describe('The maximum per UTC month in dollars, set by the operator; null: no limit.'),
    balance: dollars.nullable().describe(keyFields.balance),
    low_balance: dollars.nullable().describe(keyFields.low_balance),
    usage_today: dollars.describe('Dollars spent since 00:00 UTC.'),
    usage_minute: count.describe('Requests of the last 60 seconds.'),
    last_used_at: time.nullable().describe('When it made its last request; null: never.'),
    use_subs_first: z.boolean().describe(keyFields.use_subs_first),
    fallback_to_payg: z.boolean().describe(keyFields.fallback_to_payg),
    allowed_models: z.array(z.string()).nullable().describe(keyFields.allowed_models),
    disabled: z.boolean().describe('Whether the operator has disabled the key.'),
    keep_bodies: z.enum(['off', 'errors', 'all']).nullable().describe(keyFields.keep_bodies),
    paused: z.boolean().describe(keyFields.paused),
    group_id: id.nullable().describe(keyFields.group_id),
    tags,
    metadata: anyObject.describe(keyFields.metadata),
    expires_at: time.nullable().describe(keyFields.expires_at),
  }),
);
const amount = z.number().describe('In dollars if the unit is `usd`, else a count.');
const limit = named(
  'Limit',
  z.object({
    limit_id: id.describe('The number of the limit.'),
    scope: z
      .object({ type: z.enum(['account', 'group', 'key']), id: id.describe('The account, group or key.') })
      .describe('What is limited.'),
    unit: z.enum(['usd', 'requests', 'tokens', 'concurrent']).describe(limitFields.unit),
    window: z.enum(['minute', 'hour', 'day', 'week', 'month', 'total']).nullable().describe(limitFields.window),
    time_zone: z.string().describe(limitFields.time_zone),
    max: amount.describe(limitFields.max),
    models: z.array(z.string()).nullable().describe(limitFields.models),
    end_users: z.enum(['all', 'each']).describe(limitFields.end_users),
    action: z.enum(['refuse', 'alert']).describe(limitFields.action),
    locked: z.boolean().describe('True if only the operator can change the limit.'),
    raised: z.object({ max: amount, until: time }).nullable().describe(limitFields.raised),
    used: amount.describe(
      'What was used in the current window; with `end_users: each`, by the end user with the highest use.',
    ),
    held: amount.describe('What running requests hold.'),
    remaining: amount.describe('`max`, or `raised.max` while that applies, minus `used` and `held`.'),
    resets_at: time.nullable().describe('When the window ends; null: never by itself.'),
    created_at: time.describe('When it was made.'),
  }),
);
const nextPayment = named(
  'NextPayment',
  z.object({
    api_key_id: id.describe('The number of the key.'),
    model: z.string().describe('The listed id of the model.'),
    input_tokens: count.describe('The assumed number of input tokens.'),
    admitted: z.boolean().describe('Whether the request would be admitted.'),
    refusal: z
      .object({
        code: z.string().describe('The code of the error.'),
        message: z.string().describe('Why it would be refused.'),
        tip: z.string().nullable().describe('What to do about it.'),
        limit_id: id.nullable().describe('The limit that refuses the request; null: none does.'),
      })
      .nullable()
      .describe('Why the request would be refused; null: it would not.'),
    payers: z
      .array(
        z.object({
          payer: z
            .enum(['free', 'subscription', 'key_balance', 'group_balance', 'account'])
            .describe('What would pay.'),
          group_id: id.nullable().describe('The group, if a group’s balance would pay; else null.'),
          left: z
            .number()
            .nullable()
            .describe('Dollars that no running request holds; null: the payer pays in tokens, or the request is free.'),
          left_tokens: count
            .nullable()
            .describe('Tokens that no running request holds; null: the payer pays in dollars, or the request is free.'),
          resets_at: time.nullable().describe('When the plan’s next period begins.'),
        }),
      )
      .describe('Who would pay, in the order in which they pay; empty: nobody can.'),
    limits: z.array(limit).describe('Every limit that applies to the request, in the order in which they are checked.'),
    held: dollars.describe('Dollars that would be held first.'),
    output_tokens: count
      .nullable()
      .describe('The output tokens that the hold would pay for; null: output costs nothing.'),
  }),
);
const group = named(
  'Group',
  z.object({
    group_id: id.describe('The number of the group.'),
    name: z.string().describe('A name for people.'),
    parent_group_id: id.nullable().describe('The parent group; null: none.'),
    tags,
    balance: dollars.nullable().describe('The group’s own balance in dollars; null: none.'),
    low_balance: dollars.nullable().describe(keyFields.low_balance),
    created_at: time.describe('When it was made.'),
  }),
);

/** Resources of the account, alone and in lists. */
export const account = {
  nextPayment,
  key: named('ApiKeyAnswer', z.object({ data: apiKey })),
  keys: named('ApiKeyList', z.object({ data: z.array(apiKey) })),
  limit: named('LimitAnswer', z.object({ data: limit })),
  limits: named('LimitList', z.object({ data: z.array(limit) })),
  group: named('GroupAnswer', z.object({ data: group })),
  groups: named('GroupList', z.object({ data: z.array(group) })),
  message: named('Message', z.object({ message: z.string().describe('What was done, for people.') })),
  balance: named(
    'Balance',
    z.object({ balance: dollars.describe('In dollars, including what running requests hold.') }),
  ),
};

/** The fields of a key that its holder sees. */
export const ownKey = named(
  'OwnKey',
  z.object({
    data: z.object({
      api_key_id: id.describe('The number of the key.'),
      key: z.string().describe('The key, masked.'),
      label: z.string().describe('A name for people.'),
      group: z.string().nullable().describe('The name of its group; null: none.'),
      expires_at: time.nullable().describe(keyFields.expires_at),
      allowed_models: z.array(z.string()).nullable().describe(keyFields.allowed_models),
      limits: z.array(limit).describe('Every limit that applies to the key.'),
      pays_from: z
        .enum(['free', 'subscription', 'key_balance', 'group_balance', 'account'])
        .nullable()
        .describe('What would pay for the next request; null: nothing can.'),
      spend_today: dollars.describe('Dollars spent since 00:00 UTC.'),
      spend_month: dollars.describe('Dollars spent in this UTC month.'),
    }),
  }),
);
