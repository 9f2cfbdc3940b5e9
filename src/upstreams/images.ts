import { type OutgoingBody, outgoingBody } from './outgoing-json.ts';
import { createHash } from 'node:crypto';
import { encodeEdit, encodeForm, encodeGeneration } from '../codecs/images/encode-request.ts';
import { parseAnswer, type ParsedImage } from '../codecs/images/parse-answer.ts';
import { parseError } from '../codecs/openai-error.ts';
import { detectImageType } from '../generation/images/image-type.ts';
import type { Drawing, DrawnImage, ImageCall, ImageUpstream } from '../generation/images/image-upstream.ts';
import { type KeysHealth, UpstreamFailure } from '../generation/upstream.ts';
import { fetchBody } from './fetch-body.ts';
import type { OutgoingRequest } from './http-attempt.ts';
import { HttpTarget, type HttpTargetOptions } from './http-target.ts';
import { listOwnModels } from './own-models.ts';
import { checkDirect, type Passthrough } from './passthrough.ts';
import { ImageFetcher } from './image-fetcher.ts';

/** The settings of a configured provider of images. The base URL ends in the version, as for the official client. */
export interface ImagesProviderOptions extends HttpTargetOptions {
  /** The most bytes of an answer, and of an image. */
  readonly eventBytesMax: number;
  /** Which of the client's fields the provider gets; absent: `unpriced`. */
  readonly passthrough?: Passthrough | undefined;
  /** Fetches images that are returned as URLs; absent: an `ImageFetcher` with its default guards. */
  readonly fetcher?: Pick<ImageFetcher, 'fetch'>;
}

/** The client of one provider with OpenAI's Images interface. Credentials are sent only in headers. No failure contains a credential or a URL. */
export class ImagesProvider implements ImageUpstream {
  readonly keys: KeysHealth;
  readonly #target: HttpTarget;
  readonly #bytesMax: number;
  readonly #passthrough: Passthrough;
  readonly #fetcher: Pick<ImageFetcher, 'fetch'>;

  constructor(options: ImagesProviderOptions) {
    const { eventBytesMax: bytesMax, runtime } = options;
    this.#target = new HttpTarget(options, 'bearer');
    this.keys = this.#target.keys;
    this.#bytesMax = bytesMax;
    this.#passthrough = options.passthrough ?? 'unpriced';
    this.#fetcher = options.fetcher ?? new ImageFetcher({ bytesMax, runtime });
  }

  async draw(call: ImageCall): Promise<Drawing> {
    call.signal.throwIfAborted();
    try {
      const answer = await fetchBody(this.#target, await this.#encode(call), this.#bytesMax, call.signal);
      const { images, extraJson } = parseAnswer(answer.toString('utf8'));
      const drawn: DrawnImage[] = [];
      // One after the other, so that only one image is being fetched at a time.
      for (const image of images) drawn.push(await this.#toDrawnImage(image, call.signal));
      return { images: drawn, extraJson };
    } catch (thrown) {
      throw thrown instanceof UpstreamFailure ? this.#target.clean(thrown) : thrown;
    }
  }

  /**
   * Returns the provider's names of its models. Throws `UpstreamFailure`, and `SyntaxError` if the answer is not JSON; if the signal is aborted, its reason.
   */
  listModels(signal: AbortSignal): Promise<string[]> {
    return listOwnModels(this.#target, { listPath: '/models' }, signal);
  }

  /**
   * Waits until running calls have ended, then closes the connections. A later call gets separate connections, which are closed after it.
   */
  async close(): Promise<void> {
    await this.#target.close();
  }

  async #encode(call: ImageCall): Promise<Omit<OutgoingRequest, 'whole'>> {
    if (call.request.images.length === 0) {
      const body = await outgoingBody(checkDirect(this.#passthrough, encodeGeneration(call), call.request.n));
      return this.#outgoing(call, '/images/generations', 'application/json', body);
    }
    const parts = encodeEdit(call);
    const fields = parts.map(({ name, value }) => [name, typeof value === 'string' ? value : null] as const);
    checkDirect(this.#passthrough, Object.fromEntries(fields), call.request.n);
    // The same request is always sent as the same bytes. The boundary contains a hash of the files, so that no file can contain the boundary.
    const hash = createHash('sha256');
    for (const { value } of parts) hash.update(value);
    const boundary = `tollgate-${hash.digest('hex').slice(0, 40)}`;
    return this.#outgoing(
      call,
      '/images/edits',
      `multipart/form-data; boundary=${boundary}`,
      encodeForm(parts, boundary),
    );
  }

  #outgoing(
    { hold, model, watch }: ImageCall,
    below: string,
    type: string,
    body: OutgoingBody,
  ): Omit<OutgoingRequest, 'whole'> {
    const defaults = { accept: 'application/json', 'user-agent': 'tollgate' };
    const headers = this.#target.headers(defaults, { 'content-type': type });
    return { keyUser: hold, model, path: this.#target.path(below), headers, body, codec: { parseError }, watch };
  }

  async #toDrawnImage({ source, revisedPrompt, extraJson }: ParsedImage, signal: AbortSignal): Promise<DrawnImage> {
    const bytes = source.kind === 'bytes' ? source.bytes : await this.#fetcher.fetch(source.url, signal);
    const type = detectImageType(bytes);
    if (type === undefined) {
      throw new UpstreamFailure('malformed', { cause: new Error('an image that is not a PNG, WebP or JPEG') });
    }
    return { bytes, type, revisedPrompt, extraJson };
  }
}
