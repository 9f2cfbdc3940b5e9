import type { AnalyticsFilter, AnalyticsGroup, AnalyticsQuery } from '../ledger.ts';
import type { SumChange } from '../rows.ts';
import { others } from './filter-hours.ts';

/** The SQL conditions that select the requests of a query. */
export interface SumFilter {
  /** Conditions on records. */
  readonly ofRecord: readonly string[];
  /** The stored sums that contain exactly these requests, and the conditions that select them; undefined if there are none, so that records must be read. */
  readonly ofSum: { readonly grouped: SumChange['grouped']; readonly conditions: readonly string[] } | undefined;
}

/** The parameters of the conditions. */
export interface FilterValues {
  readonly key: number;
  readonly model: string;
  readonly provider: string;
  readonly endpoint: string;
  readonly endUser: string;
  readonly group: string;
  readonly tagName: string;
  readonly tagPath: string;
  readonly tagValue: string;
}

type FilterName = keyof AnalyticsFilter;

const kindConditions = {
  model: 'model_id = (SELECT id FROM model WHERE name = @model)',
  provider: 'provider_id = (SELECT id FROM provider WHERE name = @provider)',
  endpoint: 'endpoint_id = (SELECT id FROM endpoint WHERE name = @endpoint)',
} as const;
const recordConditions: Readonly<Record<FilterName, string>> = {
  ...kindConditions,
  keyId: 'key_id = @key',
  endUser: 'end_user_id = (SELECT id FROM end_user WHERE name = @endUser)',
  groupId: 'groups LIKE @group',
  tag: 'tags_id IN (SELECT id FROM tag_set WHERE json_extract(tags, @tagPath) = @tagValue)',
};
const names = Object.keys(recordConditions) as FilterName[];

/** Returns the parameters of a query's conditions. Those of absent filters are not used. */
export function toFilterValues({
  keyId,
  model,
  provider,
  endpoint,
  endUser,
  groupId,
  tag,
}: AnalyticsFilter): FilterValues {
  return {
    key: keyId ?? 0,
    model: model ?? '',
    provider: provider ?? '',
    endpoint: endpoint ?? '',
    endUser: endUser ?? '',
    group: `%,${groupId ?? 0},%`,
    tagName: tag?.name ?? '',
    tagPath: `$."${tag?.name ?? ''}"`,
    tagValue: tag?.value ?? '',
  };
}

/**
 * Returns the conditions for a query. `kept`: the stored sums that have the grouping of the query. `hasOthers` returns true if
 * usage of the filtered end user or tag may be included in the sum `(other)`.
 */
export function chooseFilter(
  query: AnalyticsQuery,
  kept: SumChange['grouped'],
  hasOthers: (grouped: 'end_user' | 'tag') => boolean,
): SumFilter {
  const given = names.filter(name => query[name] !== undefined);
  const ofRecord = given.map(name => recordConditions[name]);
  if (given.length === 0) return { ofRecord, ofSum: { grouped: kept, conditions: [] } };
  const { groupBy } = query;
  if (given.every(name => name in kindConditions)) {
    const conditions = [`group_id IN (SELECT id FROM call_kind WHERE ${ofRecord.join(' AND ')})`];
    return { ofRecord, ofSum: kept === 'kind' ? { grouped: 'kind', conditions } : undefined };
  }
  const [only] = given;
  if (given.length > 1 || only === undefined) return { ofRecord, ofSum: undefined };
  const own = ownSums[only];
  const isOwn = groupBy === 'none' || isSameDimension(groupBy, query, only);
  if (own === undefined || !isOwn || (own.grouped !== 'key' && hasOthers(own.grouped))) {
    return { ofRecord, ofSum: undefined };
  }
  return { ofRecord, ofSum: { grouped: own.grouped, conditions: [own.condition] } };
}

interface OwnSums {
  readonly grouped: 'key' | 'end_user' | 'tag';
  readonly condition: string;
}

/** The filters that have stored sums: of one key, end user or tag. A group has none here, because its sums do not include its subgroups. */
const ownSums: Readonly<Partial<Record<FilterName, OwnSums>>> = {
  keyId: { grouped: 'key', condition: 'group_id = @key' },
  endUser: { grouped: 'end_user', condition: 'group_id = (SELECT id FROM end_user WHERE name = @endUser)' },
  tag: { grouped: 'tag', condition: 'group_id IN (SELECT id FROM tag WHERE name = @tagName AND value = @tagValue)' },
};

/** Returns whether a query groups by the same dimension that its only filter selects. */
function isSameDimension(
  groupBy: Exclude<AnalyticsGroup, 'none'>,
  { tag }: AnalyticsFilter,
  only: FilterName,
): boolean {
  if (typeof groupBy === 'object') return only === 'tag' && tag?.name === groupBy.tag;
  return (groupBy === 'api_key' && only === 'keyId') || (groupBy === 'end_user' && only === 'endUser');
}

/** The statements that find out whether a day of the span has a sum `(other)`, of end users or of the values of a tag. */
export const othersTexts = {
  end_user: `SELECT id FROM end_user WHERE name = '${others}'`,
  tag: `SELECT id FROM tag WHERE name = @tagName AND value = '${others}'`,
} as const;
