/** A path below a base URL, which may have a path and a query of its own. */
export function pathBelow(base: URL, path: string): string {
  const joined = base.pathname.replace(/\/+$/, '') + path;
  if (base.search === '') return joined;
  return joined + (joined.includes('?') ? `&${base.search.slice(1)}` : base.search);
}
