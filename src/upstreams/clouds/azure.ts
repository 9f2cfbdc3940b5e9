import type { Runtime } from '../../lib/runtime.ts';
import type { ResponseHead } from '../error-answer.ts';
import { openaiEmbeddings } from '../http-embeddings.ts';
import type { RevealableKey } from '../http-target.ts';
import { chatProtocol, responsesProtocol, type UpstreamProtocol } from '../protocols.ts';
import { CredentialError, type RequestSigner, type SignedRequest, type UnsignedRequest } from '../request-signer.ts';
import { loadInstalled } from './load-installed.ts';
import { pathSegment } from './path-segment.ts';
import { type Fetched, RenewedCredential } from './renewed-credential.ts';

/** How Azure OpenAI is reached. */
export interface AzureSettings {
  readonly kind: 'azure';
  /** Absent: the addresses without a version. */
  readonly apiVersion?: string;
  /** Absent: a managed identity, if there is no key. */
  readonly credentials?: EntraCredentialSettings;
}

/** The identity of the gateway at Microsoft Entra. */
export interface EntraCredentialSettings {
  readonly tenantId?: string;
  readonly clientId?: string;
  readonly clientSecret?: RevealableKey;
  /** A file in PEM with a certificate and its key. */
  readonly certificateFile?: string;
  /** A file with a token of another identity provider (workload identity). */
  readonly tokenFile?: string;
  readonly authorityHost?: string;
  /** True, or the client id of a user-assigned identity. */
  readonly managedIdentity?: true | string;
}

/** The used part of `@azure/identity`. */
interface AzureIdentity {
  readonly ClientSecretCredential: new (tenant: string, client: string, secret: string, options: object) => TokenSource;
  readonly ClientCertificateCredential: new (
    tenant: string,
    client: string,
    certificate: { readonly certificatePath: string },
    options: object,
  ) => TokenSource;
  readonly WorkloadIdentityCredential: new (options: object) => TokenSource;
  readonly ManagedIdentityCredential: new (options: object) => TokenSource;
}

interface TokenSource {
  getToken(scope: string): Promise<{ readonly token: string; readonly expiresOnTimestamp: number } | null>;
}

const scope = 'https://cognitiveservices.azure.com/.default';

/** Returns the protocols of Azure OpenAI by their names, below `/openai/v1`; with a version, below `/openai`. Source: learn.microsoft.com/azure/foundry/openai/api-version-lifecycle, 2026-11-28. */
export function azureProtocols({ apiVersion }: AzureSettings): {
  readonly responses: UpstreamProtocol;
  readonly chat: UpstreamProtocol;
} {
  const { rerankPath: _, completions: __, ...chat } = chatProtocol;
  const { rerankPath: ___, ...responses } = responsesProtocol;
  const version = apiVersion === undefined ? '' : `?api-version=${encodeURIComponent(apiVersion)}`;
  const place = (model: string): string => (apiVersion === undefined ? '' : `/deployments/${pathSegment(model)}`);
  const shared = {
    authentication: 'apiKey',
    embeddings: { ...openaiEmbeddings, path: (model: string) => `${place(model)}/embeddings${version}` },
    listPath: `/models${version}`,
  } as const;
  return {
    responses: { ...responses, ...shared, path: () => `/responses${version}` },
    chat: { ...chat, ...shared, path: model => `${place(model)}/chat/completions${version}` },
  };
}

/** Signs requests with tokens of Microsoft Entra. */
export class EntraSigner implements RequestSigner {
  readonly #token: RenewedCredential<string>;

  constructor({ credentials }: AzureSettings, runtime: Runtime) {
    this.#token = new RenewedCredential(() => fetchToken(credentials), runtime);
  }

  async sign({ path, headers }: UnsignedRequest): Promise<SignedRequest> {
    return { path, headers: [...headers, 'authorization', `Bearer ${await this.#token.get()}`] };
  }

  mayRenew({ status }: ResponseHead): boolean {
    return status === 401 && this.#token.forget();
  }
}

/** Fetches a token. The source is made anew each time, because it keeps tokens of its own. */
async function fetchToken(settings: EntraCredentialSettings | undefined): Promise<Fetched<string>> {
  const identity = loadInstalled<AzureIdentity>('@azure/identity');
  const token = await openSource(identity, settings).getToken(scope);
  if (token === null) throw new CredentialError('Entra gave no token');
  return { value: token.token, endsAtMs: token.expiresOnTimestamp };
}

function openSource(identity: AzureIdentity, settings: EntraCredentialSettings = {}): TokenSource {
  const { tenantId = '', clientId = '', clientSecret, certificateFile, tokenFile, authorityHost } = settings;
  // Instance discovery asks the public cloud, which does not know private ones.
  const options = authorityHost === undefined ? {} : { authorityHost, disableInstanceDiscovery: true };
  if (clientSecret !== undefined) {
    return new identity.ClientSecretCredential(tenantId, clientId, clientSecret.reveal(), options);
  }
  if (certificateFile !== undefined) {
    const certificate = { certificatePath: certificateFile };
    return new identity.ClientCertificateCredential(tenantId, clientId, certificate, options);
  }
  if (tokenFile !== undefined) {
    return new identity.WorkloadIdentityCredential({ ...options, tenantId, clientId, tokenFilePath: tokenFile });
  }
  const { managedIdentity } = settings;
  return new identity.ManagedIdentityCredential(
    typeof managedIdentity === 'string' ? { clientId: managedIdentity } : {},
  );
}
