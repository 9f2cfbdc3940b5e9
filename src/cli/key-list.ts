import type { ApiKey } from '../gen/tollgate/v1/account_pb.ts';
import { isoTime } from '../lib/clock.ts';
import type { GatewayClients } from './gateway.ts';
import { groupPath } from './names.ts';
import { apiKeyView, readKeyState, type ResourceView } from './resources.ts';

/** Lists of API keys, with the names of their groups and with secrets that were replaced. */

type Admin = GatewayClients['admin'];

/** A key in a list. */
export interface ListedKey {
  readonly key: ApiKey;
  /** The names of its group and of those that the group is in; undefined: it has no group. */
  readonly group: string | undefined;
  /** The earlier secret that was searched for; undefined: the key is listed for itself. */
  readonly old?: OldSecret;
}

/** A secret that a rotation has replaced. */
interface OldSecret {
  readonly masked: string;
  /** When it stops working, or stopped, in ISO 8601. */
  readonly endsAt: string;
}

/** Shows keys in a table, each with its state. Nothing is shown instead of a limit of 0, which means none. */
export const listedKeyView: ResourceView<ListedKey> = {
  document: ({ key, group, old }) => ({
    ...apiKeyView.document(key),
    group: group ?? null,
    ...(old && { old_key: old.masked, old_key_ends_at: old.endsAt }),
  }),
  row: ({ key, group, old }) => {
    const document = apiKeyView.document(key);
    return {
      ...document,
      name: key.label,
      key: old?.masked ?? key.key,
      state: old === undefined ? readKeyState(key) : 'rotated',
      group,
      expires: old?.endsAt ?? document['expires_at'],
      daily_limit: document['daily_limit'] === 0 ? null : document['daily_limit'],
      minute_limit: document['minute_limit'] === 0 ? null : document['minute_limit'],
    };
  },
  columns: [
    'api_key_id',
    'name',
    'key',
    'state',
    'group',
    'expires',
    'balance',
    'daily_limit',
    'minute_limit',
    'monthly_limit',
    'usage_today',
    'allowed_models',
    'last_used_at',
  ],
};

/** Returns the keys of an account, with the names of their groups. `revoked`: also those that were revoked. */
export async function listKeys(admin: Admin, accountId: bigint, revoked: boolean): Promise<ListedKey[]> {
  const [{ keys }, { groups }] = await Promise.all([
    admin.listApiKeys({ accountId, revoked }),
    admin.listAccountGroups({ accountId }),
  ]);
  return keys.map(key => {
    const group = groups.find(({ groupId }) => groupId === key.groupId);
    return { key, group: group && groupPath(group, groups) };
  });
}

/** The number of last characters that a masked key shows. */
const shownEnd = 4;
/** The most that one answer of the audit has. */
const pageSize = 1_000;

/**
 * Returns the keys of all accounts, revoked ones too, whose label has the text or whose secret ends with its last four characters, also an earlier secret that a rotation
 * has replaced, as far back as the audit reaches.
 */
export async function findKeys(admin: Admin, text: string): Promise<ListedKey[]> {
  const { accounts } = await admin.listAccounts({});
  const found: ListedKey[] = [];
  for (const { accountId } of accounts) {
    const keys = await listKeys(admin, accountId, true);
    found.push(...keys.filter(({ key }) => endsWith(key.key, text) || hasLabel(key, text)));
    if (text.length < shownEnd) continue;
    for (const { id, old } of await readOldSecrets(admin, accountId, text)) {
      const rotated = keys.find(({ key }) => String(key.apiKeyId) === id);
      if (rotated !== undefined) found.push({ ...rotated, old });
    }
  }
  return found;
}

function endsWith(masked: string, text: string): boolean {
  return text.length >= shownEnd && masked.endsWith(text.slice(-shownEnd));
}

function hasLabel({ label }: ApiKey, text: string): boolean {
  return label.toLowerCase().includes(text.toLowerCase());
}

/** Returns the replaced secrets of an account that end with the text, with the ids of their keys. */
async function readOldSecrets(admin: Admin, accountId: bigint, text: string) {
  const found: { readonly id: string | undefined; readonly old: OldSecret }[] = [];
  for (let offset = 0; ; offset += pageSize) {
    const { records } = await admin.listAccountAudit({ accountId, query: { limit: pageSize, offset } });
    for (const { action, resourceId: id, beforeJson, afterJson, createdAtMs } of records) {
      if (action !== 'key.rotate' || beforeJson === undefined || afterJson === undefined) continue;
      const { key: masked } = JSON.parse(beforeJson) as { readonly key: string };
      const { overlap_ends_at: endsAt } = JSON.parse(afterJson) as { readonly overlap_ends_at?: string | null };
      if (endsWith(masked, text)) found.push({ id, old: { masked, endsAt: endsAt ?? isoTime(createdAtMs) } });
    }
    if (records.length < pageSize) return found;
  }
}
