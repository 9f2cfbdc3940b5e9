import type { Runtime } from '../../lib/runtime.ts';
import { CredentialError } from '../request-signer.ts';

/** A credential, and when it ends, in ms since 1970 UTC; absent: it does not end. */
export interface Fetched<Value> {
  readonly value: Value;
  readonly endsAtMs?: number | undefined;
}

/** A credential is renewed this long before its end, or after half of its life if that is shorter. */
const renewBeforeMs = 300_000;
/** After a failed renewal, the next one is tried no sooner. */
const renewalGapMs = 5_000;
/** A refused credential that is younger than this, or than a quarter of its life, is wrong, and would be the same again. */
const youngMs = 30_000;
const fetchMsMax = 20_000;

/**
 * Keeps a credential of a cloud and renews it in the background before it ends. However many requests need it, it is fetched once. If a renewal fails, the credential is used until its end.
 */
export class RenewedCredential<Value> {
  readonly #fetch: () => Promise<Fetched<Value>>;
  readonly #runtime: Pick<Runtime, 'now' | 'after'>;
  #current:
    | { readonly value: Value; readonly atMs: number; readonly renewAtMs: number; readonly endsAtMs: number }
    | undefined;
  #running: Promise<Value> | undefined;
  #failedAtMs = -Infinity;

  /** `fetch` must not return a credential that it has returned before, if that has ended. Its errors are for the operator. */
  constructor(fetch: () => Promise<Fetched<Value>>, runtime: Pick<Runtime, 'now' | 'after'>) {
    this.#fetch = fetch;
    this.#runtime = runtime;
  }

  /** Returns the credential. Rejects with `CredentialError`. */
  get(): Promise<Value> {
    const now = this.#runtime.now();
    const current = this.#current;
    if (current === undefined || now >= current.endsAtMs) return this.#renewed();
    // A failing renewal shows when the credential has ended.
    if (now >= current.renewAtMs && now >= this.#failedAtMs + renewalGapMs) this.#renewed().catch(() => undefined);
    return Promise.resolve(current.value);
  }

  /** Forgets a credential that was refused. Returns whether fetching another one makes sense. */
  forget(): boolean {
    const current = this.#current;
    if (current !== undefined) {
      const { atMs, endsAtMs } = current;
      if (this.#runtime.now() - atMs < Math.min(youngMs, (endsAtMs - atMs) / 4)) return false;
    }
    this.#current = undefined;
    return true;
  }

  #renewed(): Promise<Value> {
    this.#running ??= this.#fetchNow().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #fetchNow(): Promise<Value> {
    const late = Promise.withResolvers<never>();
    const timer = this.#runtime.after(fetchMsMax, () => late.reject(new CredentialError('it did not come in 20 s')));
    try {
      const { value, endsAtMs = Infinity } = await Promise.race([this.#fetch(), late.promise]);
      const atMs = this.#runtime.now();
      const renewAtMs = endsAtMs - Math.min(renewBeforeMs, (endsAtMs - atMs) / 2);
      this.#current = { value, atMs, endsAtMs, renewAtMs: Number.isNaN(renewAtMs) ? Infinity : renewAtMs };
      return value;
    } catch (thrown) {
      this.#failedAtMs = this.#runtime.now();
      throw thrown instanceof CredentialError ? thrown : new CredentialError(firstLine(thrown), { cause: thrown });
    } finally {
      timer.cancel();
    }
  }
}

/** Returns the beginning of an error's message. Token services answer pages of text, which may contain what was sent to them. */
function firstLine(thrown: unknown): string {
  const text = thrown instanceof Error ? thrown.message : String(thrown);
  return text.split('\n', 1).join('').slice(0, 300);
}
