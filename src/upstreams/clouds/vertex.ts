import type { JsonObject } from '../../codecs/codec.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { ResponseHead } from '../error-answer.ts';
import { geminiProtocol, messagesProtocol, type UpstreamProtocol } from '../protocols.ts';
import { CredentialError, type RequestSigner, type SignedRequest, type UnsignedRequest } from '../request-signer.ts';
import { loadInstalled } from './load-installed.ts';
import { pathSegment } from './path-segment.ts';
import { type Fetched, RenewedCredential } from './renewed-credential.ts';

/** How Vertex AI is reached. */
export interface VertexSettings {
  readonly kind: 'vertex';
  /** Absent: the project of the credentials. */
  readonly project?: string;
  /** A region, `us`, `eu` or `global`. */
  readonly location: string;
  /** The version of Gemini's paths ("v1beta1"). */
  readonly apiVersion: string;
  /** The file with Application Default Credentials; absent: where Google's library finds them. */
  readonly credentialsFile?: string;
}

/** In paths, the project of the credentials, which is known only when these have been fetched. */
const ownProject = '{project}';
const claude = /^(?:publishers\/anthropic\/models\/|claude-)/;

/** Returns the protocols of Vertex AI by their names: Gemini for all models but Claude, Messages for Claude. */
export function vertexProtocols({ project = ownProject, location, apiVersion }: VertexSettings): {
  readonly gemini: UpstreamProtocol;
  readonly messages: UpstreamProtocol;
} {
  const place = `projects/${project === ownProject ? project : pathSegment(project)}/locations/${pathSegment(location)}`;
  const { embeddings: _, ...gemini } = geminiProtocol;
  return {
    gemini: {
      ...gemini,
      authentication: 'bearer',
      serves: model => !claude.test(model),
      path: (model, whole) =>
        `/${apiVersion}/${place}/${publishedModel(model, 'google')}:${whole ? 'generateContent' : 'streamGenerateContent?alt=sse'}`,
      listPath: `/v1beta1/publishers/google/models?pageSize=100`,
    },
    messages: {
      ...messagesProtocol,
      authentication: 'bearer',
      headers: {},
      serves: model => claude.test(model),
      path: (model, whole) =>
        `/v1/${place}/${publishedModel(model, 'anthropic')}:${whole ? 'rawPredict' : 'streamRawPredict'}`,
      adapt: adaptMessages,
      listPath: undefined,
    },
  };
}

/** Returns the path of a model: its own, or the publisher's. */
function publishedModel(model: string, publisher: string): string {
  const [, named = publisher, name = model] = /^publishers\/([^/]+)\/models\/(.+)$/.exec(model) ?? [];
  return `publishers/${pathSegment(named)}/models/${pathSegment(name)}`;
}

/** The version travels in the body, the model in the path. Source: platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai, 2026-11-28. */
function adaptMessages(body: JsonObject, headers: Readonly<Record<string, string>>) {
  const { model: _, ...rest } = body;
  const { 'anthropic-version': __, ...more } = headers;
  return { body: { anthropic_version: 'vertex-2023-10-16', ...rest }, headers: more };
}

/** The used part of `google-auth-library`. */
interface GoogleLibrary {
  readonly GoogleAuth: new (options: { readonly scopes: string; readonly keyFilename?: string }) => {
    getClient(): Promise<{
      getRequestHeaders(): Promise<Headers>;
      readonly credentials: { readonly expiry_date?: number | null };
    }>;
    getProjectId(): Promise<string>;
  };
}

/** A token of Google, with what else goes with it. */
interface GoogleToken {
  readonly headers: readonly string[];
  readonly project: string | undefined;
}

/** Signs requests with tokens of Google's Application Default Credentials. */
export class VertexSigner implements RequestSigner {
  readonly #token: RenewedCredential<GoogleToken>;

  constructor(settings: VertexSettings, runtime: Runtime) {
    this.#token = new RenewedCredential(() => fetchToken(settings), runtime);
  }

  async sign({ path, headers }: UnsignedRequest): Promise<SignedRequest> {
    const token = await this.#token.get();
    return {
      path: path.replace(ownProject, pathSegment(token.project ?? '')),
      headers: [...headers, ...token.headers],
    };
  }

  mayRenew({ status }: ResponseHead): boolean {
    return status === 401 && this.#token.forget();
  }
}

/** Fetches a token. The credentials are read again each time, because their file may have been replaced. */
async function fetchToken({ project, credentialsFile }: VertexSettings): Promise<Fetched<GoogleToken>> {
  const { GoogleAuth } = loadInstalled<GoogleLibrary>('google-auth-library');
  const auth = new GoogleAuth({
    scopes: 'https://www.googleapis.com/auth/cloud-platform',
    ...(credentialsFile === undefined ? {} : { keyFilename: credentialsFile }),
  });
  const client = await auth.getClient();
  const sent = await client.getRequestHeaders();
  const headers = ['authorization', 'x-goog-user-project'].flatMap(name => {
    const value = sent.get(name);
    return value === null ? [] : [name, value];
  });
  const own = project ?? (await auth.getProjectId().catch(() => undefined));
  if (own === undefined) throw new CredentialError('the credentials name no project: set `project`');
  return { value: { headers, project: own }, endsAtMs: client.credentials.expiry_date ?? undefined };
}
