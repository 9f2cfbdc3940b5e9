import type { Viewer } from '../data/viewer.ts';
import { curlCommand, shellWord } from '../data/shell-words.ts';
import { type ActivitySearch, type Span } from './search.ts';
import type { OtherWays } from '../parts/copy.tsx';

/** The page's rows as calls of REST and of the command line. */
export function listOtherWays(viewer: Viewer, search: ActivitySearch, { startMs, endMs, isOpen }: Span): OtherWays {
  const query = new URLSearchParams({ start: new Date(startMs).toISOString() });
  if (!isOpen) query.set('end', new Date(endMs).toISOString());
  const filters = {
    model: search.model,
    api_key_id: search.key,
    group_id: search.group,
    provider: search.provider,
    end_user: search.end_user,
    tag: search.tag,
  };
  for (const [name, value] of Object.entries(filters)) if (value !== undefined) query.set(name, String(value));
  const path = viewer.role === 'holder' ? '/v1/key/activity' : '/v1/account/activity';
  const curl = curlCommand(viewer, `${path}?${query}`);
  if (viewer.role !== 'operator') return { curl };
  const words = [
    'tollgate',
    'requests',
    'list',
    '--account',
    `${viewer.accountId}`,
    '--start',
    new Date(startMs).toISOString(),
  ];
  if (!isOpen) words.push('--end', new Date(endMs).toISOString());
  if (search.model !== undefined) words.push('--model', shellWord(search.model));
  if (search.key !== undefined) words.push('--key', `${search.key}`);
  if (search.group !== undefined) words.push('--group', `${search.group}`);
  if (search.provider !== undefined) words.push('--provider', shellWord(search.provider));
  if (search.end_user !== undefined) words.push('--end-user', shellWord(search.end_user));
  if (search.tag?.includes(':') === true) words.push('--tag', shellWord(search.tag));
  return { curl, cli: words.join(' ') };
}
