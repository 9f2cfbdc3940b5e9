import type { IncomingHttpHeaders } from 'node:http';

/** Where a cookie is sent. */
export interface CookiePlace {
  readonly listener: 'public' | 'internal';
  /** Returns the path below which browsers see the listener; '': none. */
  readonly path: () => string;
  /** True if the listener has a certificate. */
  readonly isSecure: boolean;
}

/**
 * The cookie of a session. Browsers ignore the port of a cookie, so each listener has a cookie with another name: signing in on one listener
 * must not end the session on the other.
 */
export class SessionCookie {
  readonly #name: string;
  readonly #place: CookiePlace;

  constructor(place: CookiePlace) {
    this.#name = place.listener === 'public' ? 'tollgate_session' : 'tollgate_internal_session';
    this.#place = place;
  }

  get #attributes(): string {
    const { path, isSecure } = this.#place;
    return `Path=${path()}/dashboard; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`;
  }

  /** Returns the session in a request's cookies; undefined if there is none. */
  read({ cookie = '' }: IncomingHttpHeaders): string | undefined {
    const prefix = `${this.#name}=`;
    const found = cookie.split(/; */).find(each => each.startsWith(prefix));
    const text = found?.slice(prefix.length);
    return text !== undefined && /^ss-tg-[0-9A-Za-z]{43}$/.test(text) ? text : undefined;
  }

  /** Returns the header that sets the cookie; `lifetimeMs`: how long the session lasts. */
  set(session: string, lifetimeMs: number): string {
    const seconds = Math.max(0, Math.floor(lifetimeMs / 1000));
    return `${this.#name}=${session}; Max-Age=${seconds}; ${this.#attributes}`;
  }

  /** Returns the header that removes the cookie. */
  clear(): string {
    return `${this.#name}=; Max-Age=0; ${this.#attributes}`;
  }
}
