/** Verifies AWS Signature Version 4, written from AWS's description, without AWS's library. Source: docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html, 2026-11-28. */
import { createHash, createHmac } from 'node:crypto';
import type { CloudRequest } from './cloud-server.ts';

/** The secrets that the cloud knows, by access key id. */
export type Secrets = ReadonlyMap<
  string,
  { readonly secret: string; readonly sessionToken?: string; readonly endsAtMs?: number }
>;

/** What the signature says, or why it is refused. */
export type Verified =
  | { readonly signedHeaders: readonly string[]; readonly keyId: string }
  | { readonly refused: string };

const sha256 = (data: string): string => createHash('sha256').update(data).digest('hex');
const hmac = (key: string | Buffer, data: string): Buffer => createHmac('sha256', key).update(data).digest();
const refuse = (refused: string): Verified => ({ refused });

/** Encodes a text as AWS does: everything but letters, digits and - . _ ~ */
const encode = (text: string): string =>
  encodeURIComponent(text).replaceAll(/[!'()*]/g, each => `%${each.charCodeAt(0).toString(16).toUpperCase()}`);

export function verifySignature(
  { method, url, headers, text }: CloudRequest,
  secrets: Secrets,
  { region, service }: { readonly region: string; readonly service: string },
): Verified {
  const authorization = headers.authorization ?? '';
  const [, keyId = '', date = '', signedRegion = '', signedService = '', names = '', signature = ''] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/.exec(
      authorization,
    ) ?? [];
  if (keyId === '') return refuse('MissingAuthenticationToken');
  if (signedRegion !== region || signedService !== service) return refuse('SignatureDoesNotMatch: wrong scope');
  const known = secrets.get(keyId);
  if (known === undefined) return refuse('UnrecognizedClientException');
  if (headers['x-amz-security-token'] !== known.sessionToken) return refuse('UnrecognizedClientException');
  if ((known.endsAtMs ?? Infinity) < Date.now()) return refuse('ExpiredTokenException');
  const signedHeaders = names.split(';');
  const needed = Object.keys(headers).filter(
    name => name.startsWith('x-amz-') || name === 'host' || name === 'content-type',
  );
  const missing = needed.filter(name => !signedHeaders.includes(name));
  if (missing.length > 0) return refuse(`InvalidSignatureException: ${missing.join()} must be signed`);
  const stamp = String(headers['x-amz-date']);
  const atMs = Date.parse(stamp.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'));
  if (!stamp.startsWith(date) || Math.abs(Date.now() - atMs) > 300_000)
    return refuse('InvalidSignatureException: expired');
  const hash = sha256(text);
  if ((headers['x-amz-content-sha256'] ?? hash) !== hash) return refuse('InvalidSignatureException: another body');
  const [path = '', query = ''] = url.split('?');
  const canonical = [
    method,
    // Every service but S3 encodes the path as it is sent once more.
    path.split('/').map(encode).join('/'),
    query
      .split('&')
      .filter(each => each !== '')
      .toSorted()
      .join('&'),
    ...signedHeaders.map(name => `${name}:${String(headers[name]).trim().replaceAll(/ +/g, ' ')}`),
    '',
    names,
    hash,
  ].join('\n');
  const scope = `${date}/${region}/${service}/aws4_request`;
  const toSign = ['AWS4-HMAC-SHA256', stamp, scope, sha256(canonical)].join('\n');
  const key = hmac(hmac(hmac(hmac(`AWS4${known.secret}`, date), region), service), 'aws4_request');
  if (hmac(key, toSign).toString('hex') !== signature) return refuse('InvalidSignatureException: another signature');
  return { signedHeaders, keyId };
}
