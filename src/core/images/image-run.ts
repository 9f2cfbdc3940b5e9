import { ImageForm } from '../../gen/tollgate/v1/image_pb.ts';
import { Hold } from '../../generation/hold.ts';
import type { Drawing, DrawnImage } from '../../generation/images/image-upstream.ts';
import { noUsage } from '../../generation/usage-buckets.ts';
import type { Files } from '../../store/files.ts';
import { type AdmittedOrder, AdmittedRun, type AdmittedRunTools, type UsedUp } from '../admitted-run.ts';
import type { RouteName } from '../routing/observer.ts';
import type { Routed, Router } from '../routing/router.ts';
import type { ImageOrder } from './order.ts';

/** What pictures are drawn with. */
export interface ImageRunTools extends AdmittedRunTools {
  readonly router: Router;
  readonly files: Files;
}

/** An order that is admitted. */
export type AdmittedImages = AdmittedOrder<ImageOrder>;

/** A picture that is there: kept under a name, or as its bytes. */
export interface KeptImage extends Omit<DrawnImage, 'bytes'> {
  readonly size: number;
  readonly content:
    | { readonly kind: 'name'; readonly name: string }
    | { readonly kind: 'bytes'; readonly bytes: Uint8Array };
}

/** Pictures before they are charged. */
export interface KeptDrawing {
  readonly images: readonly KeptImage[];
  readonly createdAtMs: number;
  readonly route: RouteName;
  readonly extraJson: string;
}

/** One admitted order of pictures. */
export class ImageRun extends AdmittedRun<ImageOrder, KeptDrawing> {
  readonly #tools: ImageRunTools;
  /** Of kept files. */
  readonly #names: string[] = [];

  constructor(tools: ImageRunTools, asked: AdmittedImages) {
    super(tools, asked);
    this.#tools = tools;
  }

  /** Charges that many pictures, which are drawn and kept. Returns the cost in nano-dollars. If that can't be stored they are free, and it throws. */
  chargeFor(images: number): Promise<bigint> {
    return this.charge(this.#usedBy(images));
  }

  protected async make(): Promise<KeptDrawing> {
    return this.#keep(await this.#draw());
  }

  protected countUsage({ images }: KeptDrawing): UsedUp {
    return this.#usedBy(images.length);
  }

  /** Nobody is told the names of what was kept. */
  protected override async discard(): Promise<void> {
    for (const name of this.#names) await this.#tools.files.delete(name);
  }

  #usedBy(images: number): UsedUp {
    const state = images < this.asked.order.count ? 'incomplete' : 'completed';
    return { state, usage: { ...noUsage, images }, usageSource: 'reported' };
  }

  async #draw(): Promise<Routed<Drawing>> {
    const { order, admitted, requestId, story } = this.asked;
    const { request } = order;
    const { signal } = this;
    const hold = Hold.of(admitted);
    const drawn = await this.#tools.router.perform({
      model: request.model,
      caller: { hold, request },
      requestId,
      operation: 'generate_content',
      story,
      signal,
      onAttempt: () => this.noteAttempt(),
      attempt: ({ images, model, name }, attempt) => {
        if (images === undefined) throw new Error(`${name.provider} draws no pictures`);
        return images.draw({ hold, request, model, attempt, signal, watch: story });
      },
    });
    this.noteAnswer(drawn.route);
    return drawn;
  }

  async #keep({ answer: { images, extraJson }, route }: Routed<Drawing>): Promise<KeptDrawing> {
    const { order } = this.asked;
    const kept: KeptImage[] = [];
    for (const { bytes, ...facts } of images.slice(0, order.count)) {
      const image = { ...facts, size: bytes.length, revisedPrompt: facts.revisedPrompt || order.request.prompt };
      if (order.request.form === ImageForm.BYTES) {
        kept.push({ ...image, content: { kind: 'bytes', bytes } });
        continue;
      }
      const name = await this.#tools.files.put(bytes, facts.type);
      this.#names.push(name);
      kept.push({ ...image, content: { kind: 'name', name } });
    }
    return { images: kept, createdAtMs: this.#tools.runtime.now(), route, extraJson };
  }
}
