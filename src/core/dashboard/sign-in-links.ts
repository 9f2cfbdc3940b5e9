import { makeKey } from '../keys.ts';

/** The most unused links; the oldest is removed when there are more. */
const linksMax = 100;

/** Links that sign the operator in, each once. They are kept in memory only, so they are invalid after a restart. */
export class SignInLinks {
  readonly #now: () => number;
  /** When each link expires, by the SHA-256 of its token, oldest first. */
  readonly #links = new Map<string, number>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Creates a link that is valid for `lifetimeMs`. Returns its token, and when it expires. */
  make(lifetimeMs: number): { readonly token: string; readonly endsAtMs: number } {
    const { text, hash } = makeKey('signInLink');
    const endsAtMs = this.#now() + lifetimeMs;
    this.#links.set(toName(hash), endsAtMs);
    const [oldest] = this.#links.keys();
    if (this.#links.size > linksMax && oldest !== undefined) this.#links.delete(oldest);
    return { token: text, endsAtMs };
  }

  /** Uses up a link by the SHA-256 of its token. Returns whether it was valid. */
  take(hash: Uint8Array): boolean {
    const endsAtMs = this.#links.get(toName(hash));
    return this.#links.delete(toName(hash)) && endsAtMs !== undefined && this.#now() < endsAtMs;
  }
}

function toName(hash: Uint8Array): string {
  return Buffer.from(hash).toString('base64');
}
