import { toJsonString } from '@bufbuild/protobuf';
import type { KeptBody, RequestBodies, UpstreamExchange } from '../../gen/tollgate/v1/bodies_pb.ts';
import { ItemSchema } from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { type GenerateRequest, GenerateRequestSchema } from '../../gen/tollgate/v1/request_pb.ts';
import { EventFold } from '../../generation/fold.ts';
import type { WireTap } from '../../generation/upstream.ts';
import type { AnswerTap } from '../../telemetry/request-telemetry.ts';
import type { RouteName } from '../routing/observer.ts';

/** Collects the first `bytesMax` bytes of a body, and counts all of them. */
class BodyPart {
  readonly #bytesMax: number;
  readonly #parts: Buffer[] = [];
  #kept = 0;
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  add(bytes: Uint8Array): void {
    this.#bytes += bytes.length;
    const room = this.#bytesMax - this.#kept;
    if (room <= 0) return;
    // Copied, because bytes from a socket may be part of a larger buffer that is reused.
    const part = Buffer.from(bytes.subarray(0, room));
    this.#parts.push(part);
    this.#kept += part.length;
  }

  get message(): KeptBody {
    const text = Buffer.concat(this.#parts).toString('utf8');
    return {
      $typeName: 'tollgate.v1.KeptBody',
      text,
      bytes: BigInt(this.#bytes),
      cut: this.#bytes > this.#kept,
    };
  }
}

/** Collects the bodies of one request to an upstream. */
class Exchange implements WireTap {
  readonly #route: RouteName;
  readonly #request: BodyPart;
  readonly #answer: BodyPart;

  constructor(route: RouteName, bytesMax: number) {
    this.#route = route;
    this.#request = new BodyPart(bytesMax);
    this.#answer = new BodyPart(bytesMax);
  }

  sent(body: Uint8Array): void {
    this.#request.add(body);
  }

  received(bytes: Uint8Array): void {
    this.#answer.add(bytes);
  }

  get message(): UpstreamExchange | undefined {
    const request = this.#request.message;
    // A built-in model answered: nothing was sent over the network.
    if (request.bytes === 0n) return undefined;
    const { provider, model } = this.#route;
    return { $typeName: 'tollgate.v1.UpstreamExchange', provider, model, request, answer: this.#answer.message };
  }
}

/** The bodies of one request as they are stored. */
export type KeptBodies = Pick<
  RequestBodies,
  'clientRequest' | 'contractRequest' | 'contractAnswer' | 'upstream' | 'clientAnswer' | 'dropped' | 'failed'
>;

/** The most requests to upstreams that are kept for one request of a client. */
const exchangesMax = 8;
const droppedWarning = 'dropped=';

/**
 * Collects the bodies of one request while it runs and stores them once both the generation and the client's answer
 * have ended.
 */
export class BodyRecord implements AnswerTap {
  readonly #bytesMax: number;
  readonly #request: GenerateRequest;
  readonly #done: (bodies: KeptBodies) => void;
  readonly #exchanges: Exchange[] = [];
  readonly #answer: BodyPart;
  readonly #fold = new EventFold();
  #dropped: readonly string[] = [];
  #isAnswered = false;
  #waitsForClient: boolean;
  #failed: boolean | undefined;

  /** `waitsForClient`: the edge is in this process and reports when the client's answer has ended. `done` is called once, with all bodies. */
  constructor(
    request: GenerateRequest,
    options: {
      readonly bytesMax: number;
      readonly waitsForClient: boolean;
      readonly done: (bodies: KeptBodies) => void;
    },
  ) {
    this.#request = request;
    this.#bytesMax = options.bytesMax;
    this.#waitsForClient = options.waitsForClient;
    this.#done = options.done;
    this.#answer = new BodyPart(options.bytesMax);
  }

  /** Returns the recorder for a request to a route; undefined if the maximum number is already recorded. */
  exchange(route: RouteName): WireTap | undefined {
    if (this.#exchanges.length >= exchangesMax) return undefined;
    const exchange = new Exchange(route, this.#bytesMax);
    this.#exchanges.push(exchange);
    return exchange;
  }

  /** Records events that are sent to the client. */
  events(events: readonly GenerationEvent[]): void {
    for (const event of events) {
      this.#fold.add(event);
      if (event.event.case !== 'started') continue;
      const warning = event.event.value.warnings.find(text => text.startsWith(droppedWarning));
      if (warning !== undefined) this.#dropped = warning.slice(droppedWarning.length).split(',');
    }
  }

  answered(text: string): void {
    this.#isAnswered = true;
    this.#answer.add(Buffer.from(text));
  }

  clientEnded(): void {
    this.#waitsForClient = false;
    this.#finish();
  }

  /** Called when the generation has ended, and was charged or voided. */
  ended(failed: boolean): void {
    this.#failed ??= failed;
    this.#finish();
  }

  #finish(): void {
    if (this.#failed === undefined || this.#waitsForClient) return;
    this.#waitsForClient = true;
    this.#done({
      clientRequest: this.#whole(this.#request.source?.body),
      contractRequest: this.#json(toContractJson(this.#request)),
      contractAnswer: this.#json(
        JSON.stringify(
          this.#fold.choices.map(({ items }) =>
            items.map(item => JSON.parse(toJsonString(ItemSchema, item)) as unknown),
          ),
        ),
      ),
      upstream: this.#exchanges.flatMap(({ message }) => (message === undefined ? [] : [message])),
      ...(this.#isAnswered && { clientAnswer: this.#answer.message }),
      dropped: [...this.#dropped],
      failed: this.#failed,
    });
  }

  #whole(bytes: Uint8Array | undefined): KeptBody | undefined {
    if (bytes === undefined || bytes.length === 0) return undefined;
    const part = new BodyPart(this.#bytesMax);
    part.add(bytes);
    return part.message;
  }

  #json(text: string): KeptBody {
    const part = new BodyPart(this.#bytesMax);
    part.add(Buffer.from(text));
    return part.message;
  }
}

/** Returns a `GenerateRequest` as JSON, without the client's original body. */
function toContractJson(request: GenerateRequest): string {
  const { source: _, ...rest } = request;
  return toJsonString(GenerateRequestSchema, rest);
}
