import { readFileSync } from 'node:fs';
import { parseDocument } from 'yaml';
import * as z from 'zod';
import { parseIsoTime } from '../../lib/iso-time.ts';
import { parseJsonDollars } from '../../lib/dollars.ts';
import { CommandFailure } from '../failure.ts';

/**
 * The content of a file for `tollgate apply`. Nothing changes for sections and fields that are absent.
 */

const dollars = z
  .number('must be a number of dollars')
  .min(0, 'must be 0 or more')
  .transform((value, context): bigint => {
    const nanoUsd = parseJsonDollars(String(value));
    if (nanoUsd !== undefined) return nanoUsd;
    context.addIssue({ code: 'custom', message: 'is too large', input: value });
    return z.NEVER;
  });
const time = z
  .union([z.date().transform(date => date.toISOString()), z.string()])
  .transform((text, context): string => {
    const read = parseIsoTime(text);
    if (read !== undefined) return new Date(read.floorMs).toISOString();
    context.addIssue({ code: 'custom', message: 'must be a time, such as 2026-12-31T23:59:59Z', input: text });
    return z.NEVER;
  });
const name = z.string('must be a text').min(1, 'must not be empty');
const tags = z.record(z.string(), z.string('must be a text'));
const models = z.array(z.string('must be a model id')).nullable();

const limit = z.strictObject({
  unit: z.enum(['usd', 'requests', 'tokens', 'concurrent']),
  window: z.enum(['minute', 'hour', 'day', 'week', 'month', 'total']).nullable().default(null),
  max: z.number('must be a number').min(0, 'must be 0 or more'),
  time_zone: z.string().default('UTC'),
  models: models.default(null),
  end_users: z.enum(['all', 'each']).default('all'),
  action: z.enum(['refuse', 'alert']).default('refuse'),
  locked: z.boolean().default(false),
});
const limits = z.array(limit).optional();

const webhook = z.strictObject({
  url: z.string('must be an address'),
  events: z.array(z.string()).min(1, 'must name at least one type').optional(),
  disabled: z.boolean().optional(),
});

const group = z.strictObject({
  name,
  parent: name.nullable().optional(),
  tags: tags.optional(),
  balance: dollars.nullable().optional(),
  low_balance: dollars.nullable().optional(),
  limits,
});

const key = z.strictObject({
  label: name,
  group: name.nullable().optional(),
  allowed_models: models.optional(),
  balance: dollars.nullable().optional(),
  low_balance: dollars.nullable().optional(),
  expires_at: time.nullable().optional(),
  tags: tags.optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
  use_subs_first: z.boolean().optional(),
  fallback_to_payg: z.boolean().optional(),
  keep_bodies: z.enum(['off', 'errors', 'all']).nullable().optional(),
  paused: z.boolean().optional(),
  disabled: z.boolean().optional(),
  limits,
});

const account = z.strictObject({
  name,
  opening_balance: dollars.default(0n),
  low_balance: dollars.nullable().optional(),
  groups: z.array(group).optional(),
  keys: z.array(key).optional(),
  limits,
  webhooks: z.array(webhook).optional(),
});

const file = z.strictObject({ accounts: z.array(account).default([]), webhooks: z.array(webhook).optional() });

export type WantedLimit = z.output<typeof limit>;
export type WantedWebhook = z.output<typeof webhook>;
export type WantedGroup = z.output<typeof group>;
export type WantedKey = z.output<typeof key>;
export type WantedAccount = z.output<typeof account>;
export type Wanted = z.output<typeof file>;

/** Reads a file. Throws `CommandFailure` (wrong use) with a line for each mistake in it. */
export function readWanted(path: string): Wanted {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new CommandFailure(
      2,
      [`${path} can't be read: ${error instanceof Error ? error.message : String(error)}`],
      error,
    );
  }
  const document = parseDocument(text);
  if (document.errors.length > 0)
    throw new CommandFailure(
      2,
      document.errors.map(({ message }) => `${path}: ${message}`),
    );
  const read = file.safeParse(document.toJS() ?? {});
  if (!read.success) {
    throw new CommandFailure(
      2,
      read.error.issues.map(issue => `${path}: ${nameField(issue.path)}: ${issue.message}`),
    );
  }
  const twice = findTwice(read.data);
  if (twice.length > 0)
    throw new CommandFailure(
      2,
      twice.map(what => `${path}: ${what} is listed twice`),
    );
  return read.data;
}

/** Returns how many objects a file describes. */
export function countWanted({ accounts, webhooks = [] }: Wanted): number {
  const ofAccount = ({ groups = [], keys = [], limits = [], webhooks: own = [] }: WantedAccount): number => {
    const limited = [...groups, ...keys].reduce((sum, each) => sum + (each.limits?.length ?? 0), 0);
    return 1 + groups.length + keys.length + limits.length + own.length + limited;
  };
  return accounts.reduce((sum, account) => sum + ofAccount(account), webhooks.length);
}

function nameField(path: readonly PropertyKey[]): string {
  return path.map(String).join('.') || 'the file';
}

/** Returns the names that two entries of the file have. */
function findTwice({ accounts, webhooks = [] }: Wanted): string[] {
  const repeated = (names: readonly string[]): string[] => [
    ...new Set(names.filter((each, index) => names.indexOf(each) < index)),
  ];
  return [
    ...repeated(accounts.map(each => each.name)).map(each => `account ${each}`),
    ...repeated(webhooks.map(({ url }) => url)).map(url => `webhook ${url}`),
    ...accounts.flatMap(({ name: owner, groups = [], keys = [], webhooks: hooks = [] }) => [
      ...repeated(groups.map(each => each.name)).map(each => `group ${each} of account ${owner}`),
      ...repeated(keys.map(({ label }) => label)).map(each => `key ${each} of account ${owner}`),
      ...repeated(hooks.map(({ url }) => url)).map(url => `webhook ${url} of account ${owner}`),
    ]),
  ];
}
