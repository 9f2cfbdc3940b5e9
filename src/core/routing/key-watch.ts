import type { AttemptWatch, UpstreamFailure } from '../../generation/upstream.ts';

/** Passes what an upstream reports about an attempt to the request's telemetry, and reports keys that the provider refuses. */
export class KeyWatch implements AttemptWatch {
  readonly #telemetry: AttemptWatch | undefined;
  readonly keyRefused: (failure: UpstreamFailure) => void;

  /** `telemetry` undefined: the request has none. `keyRefused` is called before the request is sent again with another key. */
  constructor(telemetry: AttemptWatch | undefined, keyRefused: (failure: UpstreamFailure) => void) {
    this.#telemetry = telemetry;
    this.keyRefused = keyRefused;
  }

  get outgoingHeaders(): readonly string[] | undefined {
    return this.#telemetry?.outgoingHeaders;
  }

  translated(protocol: string, durationMs: number): void {
    this.#telemetry?.translated(protocol, durationMs);
  }

  answered(upstreamRequestId: string | undefined): void {
    this.#telemetry?.answered(upstreamRequestId);
  }
}
