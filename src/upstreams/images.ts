import { createHash } from 'node:crypto';
import type { Dispatcher } from 'undici';
import { encodeEdit, encodeForm, encodeGeneration } from '../codecs/images/encode-request.ts';
import { parseAnswer, type ParsedImage, parseError } from '../codecs/images/parse-answer.ts';
import { imageTypeOf } from '../generation/images/image-type.ts';
import type { Drawing, DrawnImage, ImageCall, ImageUpstream } from '../generation/images/image-upstream.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { authentications } from './authentication.ts';
import { cleanFailure, statusFailure } from './error-answer.ts';
import type { HttpRequest } from './http-exchange.ts';
import type { HttpUpstreamOptions } from './http-upstream.ts';
import { KeyRing, type RevealableKey } from './key-ring.ts';
import { LastingConnections } from './lasting-connections.ts';
import { type CleanMessage, messageCleaner } from './message-cleaner.ts';
import { PictureFetcher } from './picture-fetcher.ts';
import { pathBelow } from './path-below.ts';
import { UpstreamLine } from './upstream-line.ts';

/** An images upstream of the configuration; the base URL ends in the version, as the official client takes it. */
export type ImagesProviderOptions = Omit<HttpUpstreamOptions, 'protocol'> & {
  /** Fetches results that come by address; absent: with the guards of `PictureFetcher`. */
  readonly fetcher?: Pick<PictureFetcher, 'fetch'>;
};

/** A request as it is sent, whichever key it is sent with. */
type Encoded = Pick<HttpRequest, 'path' | 'body'> & { readonly contentType: string };

/** The client of one provider of OpenAI's Images interface. Credentials travel in headers only, and no failure names one, nor an address. */
export class ImagesProvider implements ImageUpstream {
  readonly #options: ImagesProviderOptions;
  readonly #base: URL;
  readonly #connections: LastingConnections;
  readonly #keys: KeyRing;
  readonly #clean: CleanMessage;
  readonly #configured: Readonly<Record<string, string>>;
  readonly #fetcher: Pick<PictureFetcher, 'fetch'>;

  constructor(options: ImagesProviderOptions) {
    this.#options = options;
    this.#base = new URL(options.baseUrl);
    const { connectMs } = options.timeouts;
    this.#connections = new LastingConnections({ origin: this.#base.origin, connectMs, proxy: options.proxy });
    this.#keys = new KeyRing(options.keys);
    this.#configured = Object.fromEntries(
      Object.entries(options.headers).map(([name, value]) => [name, value.reveal()] as const),
    );
    const secrets = [...options.keys.map(key => key.reveal()), ...Object.values(this.#configured)];
    this.#clean = messageCleaner({ secrets, baseUrl: options.baseUrl });
    this.#fetcher = options.fetcher ?? new PictureFetcher({ bytesMax: options.eventBytesMax });
  }

  async draw(call: ImageCall): Promise<Drawing> {
    call.signal.throwIfAborted();
    try {
      const encoded = this.#encode(call);
      const text = await this.#connections.use(connections => this.#ask(call, encoded, connections));
      const { images, extraJson } = parseAnswer(text);
      const drawn: DrawnImage[] = [];
      // One after the other: only one of them is in the hands of the network at a time.
      for (const image of images) drawn.push(await this.#drawn(image, call.signal));
      return { images: drawn, extraJson };
    } catch (thrown) {
      throw thrown instanceof UpstreamFailure ? cleanFailure(thrown, this.#clean) : thrown;
    }
  }

  /** Lets running calls end, then closes the connections. A call that still follows has connections of its own, which close after it. */
  async close(): Promise<void> {
    await this.#connections.close();
  }

  #encode({ request, model }: ImageCall): Encoded {
    if (request.images.length === 0) {
      const body = JSON.stringify(encodeGeneration({ request, model }));
      return { path: '/images/generations', contentType: 'application/json', body };
    }
    const parts = encodeEdit({ request, model });
    // The same request makes the same bytes; a boundary that a file could hold by chance would need its own hash in it.
    const hash = createHash('sha256');
    for (const { value } of parts) hash.update(value);
    const boundary = `tollgate-${hash.digest('hex').slice(0, 40)}`;
    const contentType = `multipart/form-data; boundary=${boundary}`;
    return { path: '/images/edits', contentType, body: encodeForm(parts, boundary) };
  }

  /** The text of the answer. Goes through the keys while they are refused. */
  async #ask({ hold, model, signal }: ImageCall, encoded: Encoded, connections: Dispatcher): Promise<string> {
    const { timeouts, clock, eventBytesMax } = this.#options;
    for (;;) {
      const picked = this.#keys.pick(hold, model);
      if (picked === undefined) throw this.#keys.lastRefusal(hold) ?? new UpstreamFailure('status', { status: 401 });
      const line = new UpstreamLine({ signal }, timeouts);
      let isWhole = false;
      try {
        const head = await line.send(connections, this.#request(encoded, picked.key));
        if (head.status >= 200 && head.status < 300) {
          const body = await line.whole(eventBytesMax);
          isWhole = true;
          return body.toString('utf8');
        }
        const tools = { codec: { parseError }, clean: this.#clean, clock };
        const failure = statusFailure(head, await line.errorBody(), tools);
        if (!this.#keys.learn(hold, model, { index: picked.index, failure })) throw failure;
      } finally {
        line.close(isWhole);
      }
    }
  }

  #request({ path, body, contentType }: Encoded, key: RevealableKey | undefined): HttpRequest {
    const headers: Record<string, string> = {
      accept: 'application/json',
      'user-agent': 'tollgate',
      ...this.#configured,
      'content-type': contentType,
    };
    if (key !== undefined) {
      const [name, value] = authentications.bearer(key.reveal());
      headers[name] = value;
    }
    return { origin: this.#base.origin, path: pathBelow(this.#base, path), headers, body };
  }

  async #drawn({ source, revisedPrompt, extraJson }: ParsedImage, signal: AbortSignal): Promise<DrawnImage> {
    const bytes = source.kind === 'bytes' ? source.bytes : await this.#fetcher.fetch(source.url, signal);
    const type = imageTypeOf(bytes);
    if (type === undefined) {
      throw new UpstreamFailure('malformed', { cause: new Error('a picture that is no PNG, WebP or JPEG') });
    }
    return { bytes, type, revisedPrompt, extraJson };
  }
}
