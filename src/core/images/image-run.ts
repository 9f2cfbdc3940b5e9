import { Code, ConnectError } from '@connectrpc/connect';
import { GatewayError, toGatewayError } from '../../errors/gateway-error.ts';
import { ImageForm } from '../../gen/tollgate/v1/image_pb.ts';
import { Hold } from '../../generation/hold.ts';
import type { DrawnImage } from '../../generation/images/image-upstream.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { Files } from '../../store/files.ts';
import type { Admitted, Ledger, RecordState } from '../../ledger/ledger.ts';
import { chargeOf, noUsage, type Outcome } from '../generation/settlement.ts';
import type { RouteName } from '../routing/observer.ts';
import type { RoutedPictures, Router } from '../routing/router.ts';
import type { Cuttable } from '../running.ts';
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

/** Pictures that are drawn, kept and charged. */
export interface PaidDrawing extends KeptDrawing {
  readonly costNanoUsd: bigint;
}

/** What a caller of a run adds to it. */
export interface ImageRunHooks {
  /** Keeps the answer, so that it is durable before it is charged; what it throws ends the run uncharged. */
  readonly beforeSettle?: (drawing: KeptDrawing) => Promise<void> | undefined;
}

/** One admitted order, from the first try to the settled charge: however it ends, its hold is settled or voided exactly once. */
export class ImageRun implements Cuttable {
  readonly #tools: ImageRunTools;
  readonly #asked: AdmittedOrder;
  readonly #abort = new AbortController();
  readonly #startedAtMs: number;
  /** See `Cuttable`. */
  place = -1;
  #wasSent = false;
  #isCut = false;
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
    this.#isCut = true;
    this.#abort.abort(stopping());
  }

  /** Whether it was ended because the gateway stops. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** Draws, keeps and charges. Throws what the caller is told. Once, and to the end. */
  async run(signal: AbortSignal, hooks: ImageRunHooks = {}): Promise<PaidDrawing> {
    const abort = (): void => this.#abort.abort(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    try {
      const drawing = await this.#drawn(hooks);
      const { count } = this.#asked.order;
      const state = drawing.images.length < count ? 'incomplete' : 'completed';
      const costNanoUsd = await this.#settle(state, drawing.images.length).catch((thrown: unknown) => {
        // A ledger that can't be written may stay so for long: the client is told at once, and the hold is given back when it can be.
        this.#tools.ledger.void(this.#asked.id, 'gateway_failure').catch(() => undefined);
        throw thrown;
      });
      return { ...drawing, costNanoUsd };
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }

  /** Charges that many pictures that an earlier process has drawn and kept. Answers the cost in nano-dollars. */
  async chargeAgain(images: number): Promise<bigint> {
    return this.#settle(images < this.#asked.order.count ? 'incomplete' : 'completed', images);
  }

  /** The kept pictures, not charged yet. What it throws has ended the hold. */
  async #drawn({ beforeSettle }: ImageRunHooks): Promise<KeptDrawing> {
    const names: string[] = [];
    try {
      const drawing = await this.#keep(await this.#draw(), names);
      await beforeSettle?.(drawing);
      return drawing;
    } catch (thrown) {
      // Nobody is told their names.
      for (const name of names) await this.#tools.files.delete(name);
      const told = this.#told(thrown);
      await this.#endUnanswered(told);
      throw told;
    }
  }

  async #draw(): Promise<RoutedPictures> {
    const { order, admitted } = this.#asked;
    const pictures = await this.#tools.router.draw({
      hold: Hold.of(admitted),
      request: order.request,
      signal: this.#abort.signal,
      onAttempt: () => {
        this.#wasSent = true;
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

  /** What the caller is told of what was thrown. */
  #told(thrown: unknown): Error {
    if (this.#isCut) return stopping();
    if (!this.#abort.signal.aborted) return toGatewayError(thrown);
    const reason: unknown = this.#abort.signal.reason;
    return reason instanceof ConnectError ? reason : new ConnectError('The call was cancelled.', Code.Canceled);
  }

  async #endUnanswered(told: Error): Promise<void> {
    const progress = { streamed: false, hasOutput: false, wasSent: this.#wasSent, isTrying: false };
    const charge = chargeOf(this.#outcome(told), progress);
    if (charge.kind === 'void') await this.#tools.ledger.void(this.#asked.id, charge.reason);
    else await this.#settle(charge.state, 0);
  }

  #outcome(told: Error): Outcome {
    if (this.#isCut) return { kind: 'cut' };
    return told instanceof GatewayError ? { kind: 'failed', error: told } : { kind: 'client_gone' };
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

function stopping(): GatewayError {
  return new GatewayError('overloaded', 'The gateway is stopping.', { retryAfterMs: 5_000 });
}
