import type { IncomingMessage, ServerResponse } from 'node:http';
import { answerText, pageHeaders } from './files.ts';
import type { Claims, IdentityProvider, PendingLogin } from './identity-provider.ts';
import type { CookiePlace, SessionCookie } from './session-cookie.ts';

/** The options for signing in with an identity provider. */
export interface LoginOptions {
  readonly provider: IdentityProvider;
  /** Returns the origin under which browsers reach the listener. */
  readonly origin: () => string;
  /** Makes a session for a person; undefined: no person of the configuration matches. */
  readonly openSession: (
    claims: Claims,
  ) => Promise<{ readonly session: string; readonly lifetimeMs: number } | undefined>;
  /** Called with the reason of a failed login; the person only learns that it failed. */
  readonly failed: (reason: unknown) => void;
}

const callbackPath = '/dashboard/callback';
const cookieName = 'tollgate_login';
const loginSeconds = 600;

/** Answers `GET /dashboard/login`, which redirects to the identity provider, and `/dashboard/callback`, to which that redirects back. */
export class Login {
  readonly #options: LoginOptions;
  readonly #cookie: SessionCookie;
  readonly #place: Pick<CookiePlace, 'path' | 'isSecure'>;

  constructor(options: LoginOptions, cookie: SessionCookie, place: Pick<CookiePlace, 'path' | 'isSecure'>) {
    this.#options = options;
    this.#cookie = cookie;
    this.#place = place;
  }

  get #attributes(): string {
    const { path, isSecure } = this.#place;
    // `Lax`, because the redirect back comes from another site; the parameter `state` protects it.
    return `Path=${path()}${callbackPath}; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`;
  }

  /** Answers a GET if it is one of these paths. Returns whether it did. */
  async answer(path: string, request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    if (path === '/dashboard/login') await this.#begin(response);
    else if (path === callbackPath) await this.#finish(request, response);
    else return false;
    return true;
  }

  async #begin(response: ServerResponse): Promise<void> {
    const { provider, origin, failed } = this.#options;
    try {
      const { url, login } = await provider.begin(origin() + callbackPath);
      const pending = [login.state, login.nonce, login.verifier].join('.');
      redirect(response, url, [`${cookieName}=${pending}; Max-Age=${loginSeconds}; ${this.#attributes}`]);
    } catch (thrown) {
      failed(thrown);
      answerText(response, 502, 'The identity provider does not answer. Try again, or sign in with a key.');
    }
  }

  async #finish(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { provider, origin, openSession, failed } = this.#options;
    const clearLoginCookie = `${cookieName}=; Max-Age=0; ${this.#attributes}`;
    const login = readLogin(request);
    if (login === undefined) return answerText(response, 400, 'The sign-in took too long. Begin again.');
    try {
      const claims = await provider.finish(new URL(request.url ?? '', origin()), login);
      const opened = await openSession(claims);
      if (opened !== undefined) {
        return redirect(response, `${this.#place.path()}/dashboard/`, [
          clearLoginCookie,
          this.#cookie.set(opened.session, opened.lifetimeMs),
        ]);
      }
      response.setHeader('set-cookie', clearLoginCookie);
      answerText(
        response,
        403,
        'You are signed in at the identity provider, but this gateway has no user for you. Ask its operator to add you.',
      );
    } catch (thrown) {
      failed(thrown);
      response.setHeader('set-cookie', clearLoginCookie);
      answerText(response, 400, 'The identity provider’s answer is not valid. Begin again.');
    }
  }
}

function readLogin({ headers: { cookie = '' } }: IncomingMessage): PendingLogin | undefined {
  const found = cookie.split(/; */).find(each => each.startsWith(`${cookieName}=`));
  const [state, nonce, verifier] = found?.slice(cookieName.length + 1).split('.') ?? [];
  return state === undefined || nonce === undefined || verifier === undefined ? undefined : { state, nonce, verifier };
}

function redirect(response: ServerResponse, location: string, cookies: readonly string[]): void {
  const headers = { ...pageHeaders, 'cache-control': 'no-store', 'content-length': 0 };
  response.writeHead(302, { ...headers, location, 'set-cookie': [...cookies] }).end();
}
