/** Returns a text as one segment of a path, encoded as the clouds' official clients do: `:` and `@` stay, `/` becomes `%2F`. */
export function pathSegment(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9\-._~!$&'()*+,=:@]+/g, encodeURIComponent);
}
