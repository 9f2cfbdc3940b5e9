import { createHash, createHmac, type Hash, type Hmac } from 'node:crypto';
import { LargeJson } from '../../lib/large-json.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { ResponseHead } from '../error-answer.ts';
import type { OutgoingBody } from '../outgoing-json.ts';
import type { RequestSigner, SignedRequest, UnsignedRequest } from '../request-signer.ts';
import { type AwsCredentials, type AwsCredentialSettings, fetchAwsCredentials } from './aws-credentials.ts';
import { loadInstalled } from './load-installed.ts';
import { RenewedCredential } from './renewed-credential.ts';

/** The options of a signer. */
export interface AwsSignerOptions {
  /** The name that the signature has: `bedrock` or `bedrock-mantle`. */
  readonly service: string;
  readonly region: string;
  readonly credentials: AwsCredentialSettings | undefined;
  readonly runtime: Runtime;
}

/** The used part of `@smithy/signature-v4`. */
interface SignatureLibrary {
  readonly SignatureV4: new (options: {
    readonly service: string;
    readonly region: string;
    readonly credentials: AwsCredentials;
    readonly sha256: typeof Sha256;
  }) => {
    sign(
      request: {
        readonly method: string;
        readonly protocol: string;
        readonly hostname: string;
        readonly path: string;
        readonly query: Readonly<Record<string, string>>;
        readonly headers: Readonly<Record<string, string>>;
      },
      options: { readonly unsignableHeaders: ReadonlySet<string>; readonly signingDate: Date },
    ): Promise<{ readonly headers: Readonly<Record<string, string>> }>;
  };
}

/** Proxies and tracers change these on the way. */
const unsigned: ReadonlySet<string> = new Set(['user-agent', 'traceparent', 'tracestate', 'baggage', 'connection']);
/** Errors that new credentials may correct. Source: docs.aws.amazon.com/bedrock/latest/APIReference/CommonErrors.html, 2026-11-28. */
const credentialErrors = /ExpiredToken|UnrecognizedClient|InvalidClientTokenId|InvalidSignature|RequestExpired/;

/** SHA-256 in the form in which AWS's library takes it. */
class Sha256 {
  readonly #hash: Hash | Hmac;

  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.#hash = secret === undefined ? createHash('sha256') : createHmac('sha256', secret as string | Uint8Array);
  }

  update(data: Uint8Array): void {
    this.#hash.update(data);
  }

  digest(): Promise<Uint8Array> {
    return Promise.resolve(this.#hash.digest());
  }

  reset(): void {}
}

/** Signs requests with AWS Signature Version 4, by AWS's own library. */
export class AwsSigner implements RequestSigner {
  readonly #options: AwsSignerOptions;
  readonly #credentials: RenewedCredential<AwsCredentials>;

  constructor(options: AwsSignerOptions) {
    const { credentials, region, runtime } = options;
    this.#options = options;
    this.#credentials = new RenewedCredential(() => fetchAwsCredentials(credentials, region), runtime);
  }

  async sign({ method, origin, path, headers, body }: UnsignedRequest): Promise<SignedRequest> {
    const { service, region, runtime } = this.#options;
    const [credentials, hash] = await Promise.all([this.#credentials.get(), hashBody(body)]);
    const { SignatureV4 } = loadInstalled<SignatureLibrary>('@smithy/signature-v4');
    const url = new URL(path, origin);
    const given: Record<string, string> = {};
    for (let at = 0; at < headers.length; at += 2) given[headers[at] ?? ''] = headers[at + 1] ?? '';
    const signer = new SignatureV4({ service, region, credentials, sha256: Sha256 });
    const signed = await signer.sign(
      {
        method,
        protocol: url.protocol,
        hostname: url.hostname,
        path: url.pathname,
        query: Object.fromEntries(url.searchParams),
        headers: { ...given, host: url.host, 'x-amz-content-sha256': hash },
      },
      { unsignableHeaders: unsigned, signingDate: new Date(runtime.now()) },
    );
    return { path, headers: Object.entries(signed.headers).flat() };
  }

  mayRenew({ status, headers }: ResponseHead): boolean {
    const type = headers['x-amzn-errortype'];
    const isCredential = typeof type === 'string' ? credentialErrors.test(type) : status === 401;
    return isCredential && this.#credentials.forget();
  }
}

async function hashBody(body: OutgoingBody | null): Promise<string> {
  const hash = createHash('sha256');
  if (body instanceof LargeJson) for await (const slice of body.slices()) hash.update(slice);
  else if (body !== null) hash.update(body);
  return hash.digest('hex');
}
