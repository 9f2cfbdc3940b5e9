import type { Facts, TokenFacts } from './facts.ts';

/** A fact of an answer that a client got otherwise than the provider sent it. */
export interface Difference {
  /** "text", "usage.output", "calls"; "failed" if there was no answer. */
  readonly what: string;
  readonly want: unknown;
  readonly got: unknown;
}

/** What the client's protocol can't show, or shows otherwise. */
export interface Place {
  readonly hasImages: boolean;
  /** False if tokens that were written to a cache are counted as other input. */
  readonly hasWritten: boolean;
  /** True if calls that were cut are left out. */
  readonly leavesOutCutCalls: boolean;
  /** True if calls keep the provider's ids. */
  readonly keepsIds: boolean;
}

/** Compares what a client got with what the provider sent. */
export function compareFacts(want: Facts, got: Facts, place: Place): Difference[] {
  const differences: Difference[] = [];
  const check = (what: string, left: unknown, right: unknown): void => {
    if (JSON.stringify(left) !== JSON.stringify(right)) differences.push({ what, want: left, got: right });
  };
  check('text', want.text, got.text);
  check('reasoning', want.reasoning, got.reasoning);
  const calls = place.leavesOutCutCalls ? want.calls.filter(call => isWhole(call.arguments)) : want.calls;
  const shown = (list: Facts['calls']): unknown =>
    list.map(({ name, arguments: text, id }) => [name, text, ...(place.keepsIds && id !== '' ? [id] : [])]);
  check(
    'calls',
    shown(calls),
    shown(
      place.keepsIds ? got.calls.map((call, at) => (calls[at]?.id === '' ? { ...call, id: '' } : call)) : got.calls,
    ),
  );
  if (!isSameEnding(want, got)) check('ending', want.ending, got.ending);
  check('pages', want.pages, got.pages);
  if (place.hasImages) check('images', want.images, got.images);
  if (want.usage !== undefined)
    checkUsage(place.hasWritten ? want.usage : { ...want.usage, written: 0 }, got.usage, check);
  return differences;
}

function checkUsage(
  want: TokenFacts,
  got: TokenFacts | undefined,
  check: (what: string, left: unknown, right: unknown) => void,
): void {
  for (const name of ['input', 'cached', 'written', 'output'] as const) check(`usage.${name}`, want[name], got?.[name]);
}

/** Returns whether the endings mean the same. An answer with calls that ended by itself ended with calls, and an ending that the provider did not give, or that no protocol has, may be any but a filter. */
function isSameEnding(want: Facts, got: Facts): boolean {
  const ending = ({ ending: reason, calls }: Facts): string =>
    reason === 'stop' && calls.length > 0 ? 'calls' : reason;
  if (want.ending === 'open' || want.ending === 'other') return got.ending !== 'filter';
  return ending(want) === ending(got) || (want.ending === 'calls' && got.ending === 'stop');
}

function isWhole(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
