import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { extname, join, relative, resolve, sep } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants } from 'node:zlib';

/** Serves the built pages of the dashboard from memory. */

const compress = promisify(brotliCompress);

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  // Generated images are shown from memory.
  "img-src 'self' blob:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

/** The headers of everything below `/dashboard`: only the gateway's own content is run or loaded. */
export const pageHeaders = {
  'content-security-policy': policy,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
} as const;

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.woff2': 'font/woff2',
  '.json': 'application/json',
  '.txt': 'text/plain; charset=utf-8',
};
/** Files that are compressed already. */
const packed: ReadonlySet<string> = new Set(['.woff2', '.png']);

interface PageFile {
  readonly body: Buffer;
  /** Undefined if the file is sent uncompressed. */
  readonly brotli: Promise<Buffer> | undefined;
  readonly type: string;
  readonly etag: string;
}

/** A request for a file. */
interface PageRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The path of the dashboard as browsers see it, with a slash at its end. */
  readonly base: string;
}

/** Returns the folder of the built pages, in this module's checkout or package. */
export function pagesFolder(): string {
  const isCheckout = extname(import.meta.filename) === '.ts';
  return resolve(import.meta.dirname, isCheckout ? '../../../dist/dashboard' : '../../dashboard');
}

/** The pages of a folder, which is read once, at the first request. A path with an extension, or below `assets/`, that is not a file there is 404. */
export class PageFiles {
  readonly #folder: string;
  #files: ReadonlyMap<string, PageFile> | undefined;
  /** The page for the last base path. */
  #index: { readonly base: string; readonly file: PageFile } | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * Answers a GET or HEAD of a path below `/dashboard/`. A path without a file extension gets `index.html`, whose router decides what to
   * show.
   */
  async answer(name: string, { request, response, base }: PageRequest): Promise<void> {
    this.#files ??= readFiles(this.#folder);
    const isAsset = name.startsWith('assets/');
    const found = name === 'index.html' || (extname(name) === '' && !isAsset) ? this.#indexAt(base) : undefined;
    const file = found ?? this.#files.get(name);
    if (file === undefined) return answerText(response, 404, this.#missing());
    const headers = {
      ...pageHeaders,
      'content-type': file.type,
      'cache-control': isAsset ? 'public, max-age=31536000, immutable' : 'no-cache',
      etag: file.etag,
      vary: 'accept-encoding',
    };
    if (request.headers['if-none-match'] === file.etag) {
      response.writeHead(304, headers).end();
      return;
    }
    const takesBrotli = /\bbr\b/.test(String(request.headers['accept-encoding'] ?? ''));
    const brotli = takesBrotli ? await file.brotli : undefined;
    const body = brotli ?? file.body;
    const encoding = brotli === undefined ? {} : { 'content-encoding': 'br' };
    response.writeHead(200, { ...headers, ...encoding, 'content-length': body.length });
    response.end(request.method === 'HEAD' ? undefined : body);
  }

  /** Returns `index.html` for pages below a path: addresses relative to the dashboard become absolute, because pages have addresses at different depths. */
  #indexAt(base: string): PageFile | undefined {
    const index = this.#files?.get('index.html');
    if (index === undefined) return undefined;
    if (this.#index?.base !== base) {
      const body = Buffer.from(index.body.toString('utf8').replaceAll('"./', `"${base}`));
      this.#index = { base, file: toPageFile(body, '.html') };
    }
    return this.#index.file;
  }

  #missing(): string {
    if (this.#files?.has('index.html') === true) return 'There is no such file.';
    return 'The dashboard was not built: run npm ci, or npm run build, and start the gateway again.';
  }
}

/** Answers with a line of text. */
export function answerText(response: ServerResponse, status: number, text: string): void {
  const headers = { ...pageHeaders, 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' };
  response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(text) + 1 });
  response.end(`${text}\n`);
}

function readFiles(folder: string): Map<string, PageFile> {
  const files = new Map<string, PageFile>();
  let names: string[];
  try {
    names = readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter(entry => entry.isFile())
      .map(entry => join(entry.parentPath, entry.name));
  } catch {
    return files;
  }
  for (const path of names) {
    files.set(relative(folder, path).split(sep).join('/'), toPageFile(readFileSync(path), extname(path)));
  }
  return files;
}

function toPageFile(body: Buffer, ending: string): PageFile {
  const params = { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_SIZE_HINT]: body.length };
  return {
    body,
    brotli: packed.has(ending) ? undefined : compress(body, { params }),
    type: types[ending] ?? 'application/octet-stream',
    etag: `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`,
  };
}
