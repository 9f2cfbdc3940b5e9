import type { Viewer } from '../data/viewer.ts';
import { curlCommand, shellWord } from '../data/shell-words.ts';
import { type ActivitySearch, groupedBy, type Grouping, lacksTagName, readTagName, type Span } from './search.ts';
import type { OtherWays } from '../parts/copy.tsx';

const hourMs = 3_600_000;
const isTagWhole = ({ tag }: ActivitySearch): boolean => tag?.includes(':') === true;

/** Returns the page's two queries, sums and rows, as REST calls and as commands. */
export function listOtherWays(viewer: Viewer, search: ActivitySearch, span: Span): readonly OtherWays[] {
  return [
    { of: 'sums', ...sumsWays(viewer, search, span) },
    { of: 'list', ...listWays(viewer, search, span) },
  ];
}

function sumsWays(viewer: Viewer, search: ActivitySearch, span: Span): Omit<OtherWays, 'of'> {
  const by = groupedBy(search);
  const division = by === 'tag' ? `tag:${readTagName(search)}` : by;
  const query = new URLSearchParams({
    start: new Date(span.startMs).toISOString(),
    end: new Date(span.endMs).toISOString(),
    granularity: span.stepMs === hourMs ? 'hour' : 'day',
    group_by: lacksTagName(search) ? 'none' : (restNames[by] ?? division),
    ...toRestFilters(search),
  });
  const curl = curlCommand(viewer, `/v1/${pathOwner(viewer)}/analytics?${query}`);
  if (viewer.role !== 'operator') return { curl };
  const words = ['tollgate', 'usage', '--by', lacksTagName(search) ? 'day' : shellWord(division)];
  return { curl, cli: [...words, ...accountWords(viewer, search, span, true)].join(' ') };
}

function listWays(viewer: Viewer, search: ActivitySearch, span: Span): Omit<OtherWays, 'of'> {
  const query = new URLSearchParams({ start: new Date(span.startMs).toISOString() });
  if (!span.isOpen) query.set('end', new Date(span.endMs).toISOString());
  for (const [name, value] of Object.entries(toRestFilters(search))) query.set(name, value);
  const curl = curlCommand(viewer, `/v1/${pathOwner(viewer)}/activity?${query}`);
  if (viewer.role !== 'operator') return { curl };
  return { curl, cli: ['tollgate', 'requests', 'list', ...accountWords(viewer, search, span, !span.isOpen)].join(' ') };
}

/** The groupings that have another name in REST. */
const restNames: Readonly<Partial<Record<Grouping, string>>> = { key: 'api_key' };

function pathOwner({ role }: Viewer): string {
  return role === 'holder' ? 'key' : 'account';
}

/** Returns the filters of the address by their names in REST. */
function toRestFilters(search: ActivitySearch): Record<string, string> {
  const filters = {
    model: search.model,
    api_key_id: search.key,
    group_id: search.group,
    provider: search.provider,
    endpoint: search.endpoint,
    end_user: search.end_user,
    tag: isTagWhole(search) ? search.tag : undefined,
  };
  return Object.fromEntries(
    Object.entries(filters).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  );
}

function accountWords(viewer: Viewer, search: ActivitySearch, span: Span, hasEnd: boolean): string[] {
  const words = ['--account', `${viewer.accountId}`, '--start', new Date(span.startMs).toISOString()];
  if (hasEnd) words.push('--end', new Date(span.endMs).toISOString());
  const options = {
    '--model': search.model,
    '--key': search.key,
    '--group': search.group,
    '--provider': search.provider,
    '--endpoint': search.endpoint,
    '--end-user': search.end_user,
    '--tag': isTagWhole(search) ? search.tag : undefined,
  };
  for (const [name, value] of Object.entries(options))
    if (value !== undefined) words.push(name, shellWord(String(value)));
  return words;
}
