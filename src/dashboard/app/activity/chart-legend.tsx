import { getRouteApi } from '@tanstack/react-router';
import { type ActivitySearch, dividedBy, type Division, filteredBy, readActivitySearch } from './search.ts';

const route = getRouteApi('/activity');

/** The names of a chart's colours; a click filters by one. */
export function ChartLegend({
  series,
  search,
  hasBefore,
}: {
  readonly series: readonly string[];
  readonly search: ActivitySearch;
  /** The chart marks the sums of the period before. */
  readonly hasBefore: boolean;
}) {
  const navigate = route.useNavigate();
  const by = dividedBy(search);
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
      {hasBefore && (
        <li>
          <span className="swatch-before" />
          the period before
        </li>
      )}
    </ul>
  );
}

/** The filter that keeps one group alone. */
function filterFor(by: Division, name: string, { tag }: ActivitySearch): ActivitySearch {
  return readActivitySearch({ [by]: by === 'tag' ? `${tag?.split(':', 1)[0] ?? ''}:${name}` : name });
}
