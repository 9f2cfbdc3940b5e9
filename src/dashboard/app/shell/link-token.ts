const name = 'token';

/** Removes the token from the address and returns it, so that neither the history nor a copied address contains it. */
function takeLinkToken(): string | undefined {
  const { hash, search, pathname } = window.location;
  const query = new URLSearchParams(search);
  const token = new URLSearchParams(hash.slice(1)).get(name) ?? query.get(name);
  if (token === null) return undefined;
  query.delete(name);
  const rest = query.size === 0 ? '' : `?${query}`;
  window.history.replaceState(null, '', `${pathname}${rest}`);
  return token;
}

/** The token of a sign-in link; undefined if the address had none. It is removed before the router reads the address. */
export const linkToken = takeLinkToken();
