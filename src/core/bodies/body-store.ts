import { promisify } from 'node:util';
import { deflate, inflate } from 'node:zlib';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { type RequestBodies, RequestBodiesSchema } from '../../gen/tollgate/v1/bodies_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { endpointPath } from '../../generation/endpoints.ts';
import type { KeepBodies } from '../../ledger/ledger.ts';
import type { Clock } from '../../lib/clock.ts';
import type { SealedBox } from '../../lib/sealed-box.ts';
import { type Documents, uncounted } from '../../store/documents.ts';
import type { RequestTelemetry } from '../../telemetry/request-telemetry.ts';
import { BodyRecord, type KeptBodies } from './body-record.ts';

const deflated = promisify(deflate);
const inflated = promisify(inflate);
const kind = 'bodies';

/** Which bodies are stored, and for how long. */
export interface BodySettings {
  readonly keep: KeepBodies;
  /** The most bytes that are kept of each body. */
  readonly bytesMax: number;
  readonly lifetimeMs: number;
}

interface BodyStoreDependencies {
  readonly documents: Documents;
  readonly box: SealedBox;
  readonly clock: Clock;
  readonly settings: () => BodySettings;
  /** Called if bodies could not be stored, for the log. */
  readonly failed: (requestId: string, error: unknown) => void;
}

/** The admitted request that bodies belong to. */
export interface BodyOwner {
  readonly requestId: string;
  readonly accountId: number;
  readonly keyId: number;
  /** The key's own setting; null or absent: the configuration decides. */
  readonly keep?: KeepBodies | null | undefined;
}

/**
 * Stores the bodies of requests, if that is enabled: compressed and encrypted with the server secret, in documents that expire.
 */
export class BodyStore {
  readonly #dependencies: BodyStoreDependencies;
  /** Bodies that are being stored, by the request's id. */
  readonly #pending = new Map<string, Promise<void>>();

  constructor(dependencies: BodyStoreDependencies) {
    this.#dependencies = dependencies;
  }

  /** Returns a record that collects the bodies of a request; undefined if they are not kept. */
  begin(owner: BodyOwner, request: GenerateRequest, telemetry: RequestTelemetry | undefined): BodyRecord | undefined {
    const { keep, bytesMax } = this.#dependencies.settings();
    const wanted = owner.keep ?? keep;
    if (wanted === 'off') return undefined;
    const record = new BodyRecord(request, {
      bytesMax,
      waitsForClient: telemetry?.rendersAnswer === true,
      done: bodies => {
        if (wanted !== 'all' && !bodies.failed) return;
        const { requestId } = owner;
        const kept = this.#keep(owner, request, bodies).finally(() => this.#pending.delete(requestId));
        this.#pending.set(requestId, kept);
      },
    });
    if (telemetry !== undefined) telemetry.bodies = record;
    return record;
  }

  /** Returns the bodies of an account's request; undefined if none were kept or they have expired. */
  async find(accountId: number, requestId: string): Promise<RequestBodies | undefined> {
    const { documents, box } = this.#dependencies;
    await this.#pending.get(requestId);
    const found = await documents.find({ kind, id: requestId }, uncounted, accountId);
    const opened = found && box.open(Buffer.from(found.body).toString('latin1'), toContext(accountId, requestId));
    return opened && fromBinary(RequestBodiesSchema, await inflated(opened));
  }

  /** Stores bodies. Never rejects. */
  async #keep({ requestId, accountId, keyId }: BodyOwner, request: GenerateRequest, bodies: KeptBodies): Promise<void> {
    const { documents, box, clock, settings, failed } = this.#dependencies;
    const createdAtMs = clock.now();
    const endsAtMs = createdAtMs + settings().lifetimeMs;
    const message = create(RequestBodiesSchema, {
      ...bodies,
      requestId,
      model: request.model,
      endpoint: endpointPath(request.endpoint),
      keptAtMs: BigInt(createdAtMs),
      endsAtMs: BigInt(endsAtMs),
    });
    try {
      const content = await deflated(toBinary(RequestBodiesSchema, message), { level: 3 });
      const body = Buffer.from(box.seal(content, toContext(accountId, requestId)), 'latin1');
      const facts = { kind, id: requestId, accountId, apiKeyId: keyId, state: 'kept', finished: true } as const;
      await documents.put({ ...facts, createdAtMs, endsAtMs, body });
    } catch (thrown) {
      failed(requestId, thrown);
    }
  }
}

function toContext(accountId: number, requestId: string): string {
  return `bodies of request ${requestId} of account ${accountId}`;
}
