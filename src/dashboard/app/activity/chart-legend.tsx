import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { may, useViewer } from '../data/viewer.ts';
import { type ActivitySearch, groupedBy, type Grouping, filteredBy, readActivitySearch } from './search.ts';

const route = getRouteApi('/activity');

/** Shows the names of a chart's colours; a click filters by that name. */
export function ChartLegend({
  series,
  search,
  hasBefore,
}: {
  readonly series: readonly string[];
  readonly search: ActivitySearch;
  /** Whether the chart shows marks for the sums of the previous period. */
  readonly hasBefore: boolean;
}) {
  const navigate = route.useNavigate();
  const by = groupedBy(search);
  const labels = useLabels(by);
  const isChoice = !filteredBy(search).includes(by);
  return (
    <ul className="legend">
      {series.map((name, index) => (
        <li key={name}>
          <span className={`swatch fill-${index}`} />
          {isChoice && name !== 'other' && name !== '(none)' && name !== 'all' ? (
            <button
              type="button"
              onClick={() => void navigate({ search: before => ({ ...before, ...filterFor(by, name, search) }) })}
            >
              {labels.get(name) ?? name}
            </button>
          ) : (
            (labels.get(name) ?? name)
          )}
        </li>
      ))}
      {hasBefore && (
        <li>
          <span className="swatch-before" />
          the period before
        </li>
      )}
    </ul>
  );
}

/** Returns the names that people gave keys or groups, by their ids; empty if the viewer may not list them. */
function useLabels(by: Grouping): ReadonlyMap<string, string> {
  const viewer = useViewer();
  const { account } = viewer;
  const keys = useQuery({
    queryKey: ['keys', account?.name],
    queryFn: async ({ signal }) => (await account?.listKeys(signal)) ?? [],
    enabled: by === 'key' && account !== undefined && may(viewer, 'keys:read'),
  });
  const groups = useQuery({
    queryKey: ['groups', account?.name],
    queryFn: async ({ signal }) => (await account?.listGroups(signal)) ?? [],
    enabled: by === 'group' && account !== undefined && may(viewer, 'groups:read'),
  });
  if (by === 'key') return toLabels((keys.data ?? []).map(({ apiKeyId, label }) => [apiKeyId, label]));
  return by === 'group' ? toLabels((groups.data ?? []).map(({ groupId, name }) => [groupId, name])) : new Map();
}

function toLabels(named: readonly (readonly [id: bigint, name: string])[]): ReadonlyMap<string, string> {
  return new Map(named.filter(([, name]) => name !== '').map(([id, name]) => [`${id}`, `${name} (${id})`]));
}

/** Returns the filter that leaves only one group. */
function filterFor(by: Grouping, name: string, { tag }: ActivitySearch): ActivitySearch {
  return readActivitySearch({ [by]: by === 'tag' ? `${tag?.split(':', 1)[0] ?? ''}:${name}` : name });
}
