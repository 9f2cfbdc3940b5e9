const name = 'token';

/**
 * Takes the token of a sign-in link out of the address, so that neither the history nor a copied address has it. Returns it, or undefined if the
 * address has none.
 */
export function takeLinkToken(): string | undefined {
  const { hash, search, pathname } = window.location;
  const query = new URLSearchParams(search);
  const token = new URLSearchParams(hash.slice(1)).get(name) ?? query.get(name);
  if (token === null) return undefined;
  query.delete(name);
  const rest = query.size === 0 ? '' : `?${query}`;
  window.history.replaceState(null, '', `${pathname}${rest}`);
  return token;
}
