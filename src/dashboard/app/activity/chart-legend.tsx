import { getRouteApi } from '@tanstack/react-router';
import { type ActivitySearch, groupedBy, type Grouping, filteredBy, readActivitySearch } from './search.ts';

const route = getRouteApi('/activity');

/** Shows the names of a chart's colours; a click filters by that name. */
export function ChartLegend({
  series,
  search,
}: {
  readonly series: readonly string[];
  readonly search: ActivitySearch;
}) {
  const navigate = route.useNavigate();
  const by = groupedBy(search);
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
              {name}
            </button>
          ) : (
            name
          )}
        </li>
      ))}
    </ul>
  );
}

/** Returns the filter that leaves only one group. */
function filterFor(by: Grouping, name: string, { tag }: ActivitySearch): ActivitySearch {
  return readActivitySearch({ [by]: by === 'tag' ? `${tag?.split(':', 1)[0] ?? ''}:${name}` : name });
}
