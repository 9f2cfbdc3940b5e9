import { ImageForm } from '../../gen/tollgate/v1/image_pb.ts';
import { Hold } from '../../generation/hold.ts';
import type { Drawing, DrawnImage } from '../../generation/images/image-upstream.ts';
import {
  estimateImageTokens,
  type ImageTokens,
  readImageTokens,
  sumImageTokens,
} from '../../generation/images/image-tokens.ts';
import { imageTokensCost } from '../../generation/price.ts';
import { noUsage } from '../../generation/usage-buckets.ts';
import type { Files } from '../../store/files.ts';
import { type AdmittedRequest, AdmittedRun, type AdmittedRunDependencies, type UsedUp } from '../admitted-run.ts';
import type { RouteName } from '../routing/observer.ts';
import type { Routed } from '../routing/router.ts';
import { decodeFiles } from './inspect.ts';
import type { PreparedImageRequest } from './prepare-request.ts';

/** The dependencies of `ImageRun`. */
export interface ImageRunDependencies extends AdmittedRunDependencies {
  readonly files: Files;
}

/** An admitted image request. */
export type AdmittedImages = AdmittedRequest<PreparedImageRequest>;

/** A finished image: the name of its stored file, or its bytes. */
export interface KeptImage extends Omit<DrawnImage, 'bytes'> {
  readonly size: number;
  readonly content:
    | { readonly kind: 'name'; readonly name: string }
    | { readonly kind: 'bytes'; readonly bytes: Uint8Array };
}

/** The images of a request, before they are charged. */
export interface KeptDrawing {
  readonly images: readonly KeptImage[];
  readonly createdAtMs: number;
  readonly route: RouteName;
  readonly extraJson: string;
}

/** A report of more tokens than the own count times this is not believed. */
const believedFactorMax = 100;

/** One admitted image request. */
export class ImageRun extends AdmittedRun<PreparedImageRequest, KeptDrawing> {
  readonly #dependencies: ImageRunDependencies;
  /** Whether the request's files have been decoded, and are therefore real images. */
  readonly #areFilesDecoded: boolean;
  /** The names of the files that this run has stored. */
  readonly #names: string[] = [];

  constructor(dependencies: ImageRunDependencies, requested: AdmittedImages, areFilesDecoded: boolean) {
    super(dependencies, requested);
    this.#dependencies = dependencies;
    this.#areFilesDecoded = areFilesDecoded;
  }

  /**
   * Charges for images that an earlier process has drawn and stored. Returns the cost in nano-dollars. If the charge can't be stored, the images are free and this throws.
   */
  chargeFor(images: number): Promise<bigint> {
    return this.charge(this.#usedBy(images));
  }

  protected async make(): Promise<KeptDrawing> {
    const { prepared, admitted } = this.requested;
    if (!this.#areFilesDecoded) await decodeFiles(prepared.request, admitted.accountId, this.signal);
    return this.#keep(await this.#draw());
  }

  protected countUsage({ images, extraJson }: KeptDrawing): UsedUp {
    return this.#usedBy(images.length, readImageTokens(extraJson));
  }

  /** Deletes the stored files. Nobody knows their names yet. */
  protected override async discard(): Promise<void> {
    for (const name of this.#names) await this.#dependencies.files.delete(name);
  }

  /** `reported`: the tokens that the provider reports; absent: none. */
  #usedBy(images: number, reported?: ImageTokens): UsedUp {
    const { prepared } = this.requested;
    const state = images < prepared.count ? 'incomplete' : 'completed';
    const prices = prepared.model.pricing?.imageTokens;
    if (prices === undefined) return { state, usage: { ...noUsage, images }, usageSource: 'reported' };
    const own = estimateImageTokens(prepared.request, prepared.imageTerms, images);
    const sums = reported && { reported: sumImageTokens(reported), believed: sumImageTokens(own) };
    const isDoubtful = sums !== undefined && sums.reported > believedFactorMax * sums.believed;
    const tokens = reported === undefined || isDoubtful ? own : reported;
    return {
      state,
      usage: {
        ...noUsage,
        images,
        input: tokens.textInput + tokens.imageInput,
        cacheRead: tokens.cachedInput,
        output: tokens.output,
      },
      usageSource: tokens === own ? 'estimated' : 'reported',
      costNanoUsd: imageTokensCost(tokens, prices),
      costAt: ({ imageTokens }) => imageTokens && imageTokensCost(tokens, imageTokens),
      ...(isDoubtful ? { doubt: { member: 'total_tokens', ...sums } } : {}),
    };
  }

  async #draw(): Promise<Routed<Drawing>> {
    const { prepared, admitted, requestId, telemetry } = this.requested;
    const { request } = prepared;
    const { signal } = this;
    const hold = Hold.of(admitted);
    const drawn = await this.#dependencies.router.perform({
      model: request.model,
      caller: { hold, request },
      requestId,
      operation: 'generate_content',
      telemetry,
      timeline: this.timeline,
      signal,
      onAttempt: () => this.noteAttempt(),
      attempt: ({ images, model, name }, attempt, watch) => {
        if (images === undefined) throw new Error(`${name.provider} draws no images`);
        return images.draw({ hold, request, model, attempt, signal, watch });
      },
    });
    this.noteAnswer(drawn);
    return drawn;
  }

  async #keep({ answer: { images, extraJson }, route }: Routed<Drawing>): Promise<KeptDrawing> {
    const { prepared } = this.requested;
    const kept: KeptImage[] = [];
    for (const { bytes, ...facts } of images.slice(0, prepared.count)) {
      const image = { ...facts, size: bytes.length, revisedPrompt: facts.revisedPrompt || prepared.request.prompt };
      if (prepared.request.form === ImageForm.BYTES) {
        kept.push({ ...image, content: { kind: 'bytes', bytes } });
        continue;
      }
      const name = await this.#dependencies.files.put(bytes, facts.type);
      this.#names.push(name);
      kept.push({ ...image, content: { kind: 'name', name } });
    }
    return { images: kept, createdAtMs: this.#dependencies.runtime.now(), route, extraJson };
  }
}
