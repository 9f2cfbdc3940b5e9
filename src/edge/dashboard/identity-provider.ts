import type { Configuration } from 'openid-client';

/** The settings of an OpenID Connect provider. */
export interface ProviderSettings {
  /** `http:` only for a provider on this machine. */
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly scopes: readonly string[];
}

/** The values that the browser stores while the person signs in at the provider. */
export interface PendingLogin {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

/** The provider's claims about a person, by the name of the claim. */
export type Claims = Readonly<Record<string, unknown>>;

/**
 * Signs people in with an OpenID Connect provider: authorization code with PKCE, state and nonce. The first sign-in loads the
 * library, because most gateways have no provider, and discovers the provider's endpoints.
 */
export class IdentityProvider {
  readonly #settings: ProviderSettings;
  #configuration: Promise<Configuration> | undefined;

  constructor(settings: ProviderSettings) {
    this.#settings = settings;
  }

  /**
   * Returns the address to redirect the browser to, and the values that must come back with it. Rejects if the provider does not answer.
   */
  async begin(callback: string): Promise<{ readonly url: string; readonly login: PendingLogin }> {
    const configuration = await this.#discover();
    const client = await loadClient();
    const login = {
      state: client.randomState(),
      nonce: client.randomNonce(),
      verifier: client.randomPKCECodeVerifier(),
    };
    const url = client.buildAuthorizationUrl(configuration, {
      redirect_uri: callback,
      scope: this.#settings.scopes.join(' '),
      code_challenge: await client.calculatePKCECodeChallenge(login.verifier),
      code_challenge_method: 'S256',
      state: login.state,
      nonce: login.nonce,
    });
    return { url: url.href, login };
  }

  /** Returns the provider's claims about the person who returns to this address. Rejects if the answer does not belong to this login. */
  async finish(address: URL, { state, nonce, verifier }: PendingLogin): Promise<Claims> {
    const configuration = await this.#discover();
    const { authorizationCodeGrant, fetchUserInfo } = await loadClient();
    const tokens = await authorizationCodeGrant(configuration, address, {
      pkceCodeVerifier: verifier,
      expectedState: state,
      expectedNonce: nonce,
      idTokenExpected: true,
    });
    const claims = tokens.claims();
    if (claims === undefined) throw new Error('the provider sent no ID token');
    // Many providers return groups only from the userinfo endpoint.
    const { userinfo_endpoint: hasMore } = configuration.serverMetadata();
    const more = hasMore === undefined ? {} : await fetchUserInfo(configuration, tokens.access_token, claims.sub);
    return mergeClaims(claims, more);
  }

  #discover(): Promise<Configuration> {
    this.#configuration ??= discover(this.#settings).catch((thrown: unknown) => {
      // The next sign-in tries again.
      this.#configuration = undefined;
      throw thrown;
    });
    return this.#configuration;
  }
}

/** Returns the claims of the ID token and of the userinfo endpoint, whose values win. An address counts as verified only by the word of the source that it comes from. */
export function mergeClaims(token: Claims, userInfo: Claims): Claims {
  const { email, email_verified: verified } = userInfo;
  const isOfToken = email === undefined || (email === token['email'] && verified === undefined);
  return { ...token, ...userInfo, email_verified: isOfToken ? token['email_verified'] : verified };
}

const loadClient = () => import('openid-client');

async function discover({ issuer, clientId, clientSecret }: ProviderSettings): Promise<Configuration> {
  const client = await loadClient();
  const url = new URL(issuer);
  // oxlint-disable-next-line typescript/no-deprecated -- Marked to stand out: the configuration allows it for a provider on this machine alone.
  const options = url.protocol === 'http:' ? { execute: [client.allowInsecureRequests] } : {};
  return client.discovery(url, clientId, clientSecret, undefined, options);
}
