import { toGatewayError } from '../../errors/gateway-error.ts';
import { ImageForm } from '../../gen/tollgate/v1/image_pb.ts';
import { Hold } from '../../generation/hold.ts';
import type { DrawnImage } from '../../generation/images/image-upstream.ts';
import { noUsage } from '../../generation/usage-buckets.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { Files } from '../../store/files.ts';
import type { Admitted, Ledger, RecordState } from '../../ledger/ledger.ts';
import { chargeOf, type Outcome, toClientError } from '../generation/settlement.ts';
import type { RouteName } from '../routing/observer.ts';
import type { RoutedPictures, Router } from '../routing/router.ts';
import { type Cuttable, keyRevoked, stopping } from '../running.ts';
import type { ImageOrder } from './order.ts';

/** What pictures are drawn with. */
export interface ImageRunTools {
  readonly ledger: Ledger;
  readonly router: Router;
  readonly files: Files;
  readonly runtime: Runtime;
}

/** An order that is admitted. */
export interface AdmittedOrder {
  readonly order: ImageOrder;
  /** The request's id in the ledger. */
  readonly id: number;
  /** What the client is told. */
  readonly requestId: string;
  /** The API key that pays. */
  readonly keyId: number;
  readonly admitted: Admitted;
}

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

type KeepDrawing = (drawing: KeptDrawing) => Promise<void> | undefined;

/** One admitted order, from the first try to the settled charge: however it ends, its hold is settled or voided exactly once. */
export class ImageRun implements Cuttable {
  readonly #tools: ImageRunTools;
  readonly #asked: AdmittedOrder;
  readonly #abort = new AbortController();
  readonly #startedAtMs: number;
  /** See `Cuttable`. */
  place = -1;
  /** It was ended because the gateway stops. */
  isCut = false;
  #isRevoked = false;
  #firstEventMs: number | undefined;
  #provider = '';
  #attempts = 0;

  constructor(tools: ImageRunTools, asked: AdmittedOrder) {
    this.#tools = tools;
    this.#asked = asked;
    this.#startedAtMs = tools.runtime.monotonicMs();
  }

  /** The gateway stops: ends it now. */
  cut(): void {
    this.isCut = true;
    this.#abort.abort(stopping());
  }

  get keyId(): number {
    return this.#asked.keyId;
  }

  /** The key has been revoked: ends it now. */
  revoke(): void {
    this.#isRevoked = true;
    this.#abort.abort(keyRevoked());
  }

  /**
   * Draws, keeps and charges. Throws what the caller is told. Once, and to the end. `beforeSettle` keeps the answer, so that it is durable before it is charged; what it throws ends the
   * run uncharged.
   */
  async run(signal: AbortSignal, beforeSettle: KeepDrawing): Promise<KeptDrawing & { readonly costNanoUsd: bigint }> {
    const abort = (): void => this.#abort.abort(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    try {
      const drawing = await this.#drawn(beforeSettle);
      const costNanoUsd = await this.charge(drawing.images.length).catch((thrown: unknown) => {
        // A ledger that can't be written may stay so for long: the client is told at once, and the hold is given back when it can be.
        this.#tools.ledger.void(this.#asked.id, 'gateway_failure').catch(() => undefined);
        throw thrown;
      });
      return { ...drawing, costNanoUsd };
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }

  /** Charges that many pictures, which are drawn and kept. Returns the cost in nano-dollars. */
  charge(images: number): Promise<bigint> {
    return this.#settle(images < this.#asked.order.count ? 'incomplete' : 'completed', images);
  }

  /** The kept pictures, not charged yet. What it throws has ended the hold. */
  async #drawn(beforeSettle: KeepDrawing): Promise<KeptDrawing> {
    const names: string[] = [];
    try {
      const drawing = await this.#keep(await this.#draw(), names);
      await beforeSettle(drawing);
      return drawing;
    } catch (thrown) {
      // Nobody is told their names.
      for (const name of names) await this.#tools.files.delete(name);
      const outcome = this.#outcome(thrown);
      await this.#endUnanswered(outcome);
      throw toClientError(outcome);
    }
  }

  async #draw(): Promise<RoutedPictures> {
    const { order, admitted } = this.#asked;
    const pictures = await this.#tools.router.draw({
      hold: Hold.of(admitted),
      request: order.request,
      signal: this.#abort.signal,
      onAttempt: () => {
        this.#attempts += 1;
      },
    });
    this.#firstEventMs = this.#tools.runtime.monotonicMs() - this.#startedAtMs;
    this.#provider = pictures.route.provider;
    return pictures;
  }

  async #keep({ images, route, extraJson }: RoutedPictures, names: string[]): Promise<KeptDrawing> {
    const { order } = this.#asked;
    const kept: KeptImage[] = [];
    for (const { bytes, ...facts } of images.slice(0, order.count)) {
      const image = { ...facts, size: bytes.length, revisedPrompt: facts.revisedPrompt || order.request.prompt };
      if (order.request.form === ImageForm.BYTES) {
        kept.push({ ...image, content: { kind: 'bytes', bytes } });
        continue;
      }
      const name = await this.#tools.files.put(bytes, facts.type);
      names.push(name);
      kept.push({ ...image, content: { kind: 'name', name } });
    }
    return { images: kept, createdAtMs: this.#tools.runtime.now(), route, extraJson };
  }

  #outcome(thrown: unknown): Outcome {
    if (this.isCut) return { kind: 'cut' };
    if (this.#isRevoked) return { kind: 'client_gone', error: keyRevoked() };
    return this.#abort.signal.aborted ? { kind: 'client_gone' } : { kind: 'failed', error: toGatewayError(thrown) };
  }

  async #endUnanswered(outcome: Outcome): Promise<void> {
    const progress = { streamed: false, hasOutput: false, wasSent: this.#attempts > 0, isTrying: false };
    const charge = chargeOf(outcome, progress);
    if (charge.kind === 'void') await this.#tools.ledger.void(this.#asked.id, charge.reason);
    else await this.#settle(charge.state, 0);
  }

  async #settle(state: RecordState, images: number): Promise<bigint> {
    const { id, order } = this.#asked;
    const settled = await this.#tools.ledger.settle({
      id,
      state,
      usage: { ...noUsage, images },
      usageSource: 'reported',
      serviceTier: 'default',
      latencyMs: Math.round(this.#tools.runtime.monotonicMs() - this.#startedAtMs),
      firstEventMs: this.#firstEventMs === undefined ? undefined : Math.round(this.#firstEventMs),
      provider: this.#provider,
      attempts: this.#attempts,
      prices: order.prices,
      multiplierPermille: 1000,
    });
    if (settled.kind !== 'settled') throw new Error(`settle of ${id}: ${settled.kind}`);
    return settled.costNanoUsd;
  }
}
