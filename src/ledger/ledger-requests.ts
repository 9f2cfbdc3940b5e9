import { randomBytes } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { WindowState } from '../errors/gateway-error.ts';
import { KeyRoom } from './key-room.ts';
import type {
  AdmissionPreview,
  AdmitCommand,
  Admitted,
  Credential,
  Denied,
  ExtendCommand,
  Extended,
  KeyOwner,
  SettleCommand,
  Settled,
  VoidReason,
} from './ledger.ts';
import {
  type AdmitReply,
  decodeAdmitReply,
  decodeSettleReply,
  encodeAdmit,
  encodeSettle,
  type SettleReply,
  type WireCommand,
} from './sqlite/wire.ts';

/** Sends a command to the writer and resolves with its decoded reply. See `Writer.send`. */
type SendCommand = <R>(command: WireCommand, decode: (value: unknown) => R, isBounded?: boolean) => Promise<R>;

/** Finds the current credentials. */
export interface CredentialSource {
  find(hash: Uint8Array): Credential | undefined | Promise<Credential | undefined>;
  findApiKey(keyId: number): Credential | undefined | Promise<Credential | undefined>;
  /** Called when a credential may have changed. */
  forget(): void;
}

/** The dependencies of `LedgerRequests`. */
export interface LedgerRequestTools {
  readonly send: SendCommand;
  readonly now: () => number;
  readonly lastId: () => number;
  readonly credentials: CredentialSource;
  /** Called with the part of a request's cost that no funds covered. */
  readonly wroteOff: (id: number, nanoUsd: bigint) => void;
}

/**
 * The methods of the ledger that every request uses. They work on the thread that opened the ledger and in workers, which send their
 * commands to that thread.
 */
export class LedgerRequests {
  readonly #tools: LedgerRequestTools;
  protected readonly credentials: CredentialSource;
  readonly #room = new KeyRoom();
  /** Never used twice, not even by another process. */
  #nextExtension = randomBytes(6).readUIntBE(0, 6);

  constructor(tools: LedgerRequestTools) {
    this.#tools = tools;
    this.credentials = tools.credentials;
  }

  get lastId(): number {
    return this.#tools.lastId();
  }

  // Not async: that would make two more promises for every reply.
  admit(command: AdmitCommand): Promise<Admitted | Denied> {
    const named = 'hash' in command.key ? this.#findOwner(command.key.hash) : command.key;
    if (named instanceof Promise) return named.then(owner => this.#admitOwned(command, owner));
    return this.#admitOwned(command, named);
  }

  #admitOwned(command: AdmitCommand, owner: KeyOwner | Denied): Promise<Admitted | Denied> {
    // Resolves a turn of the event loop later, like every other reply: a caller that repeats calls must not block the event loop.
    if ('kind' in owner) return nextTurn(owner);
    this.#room.send(command.requests ?? 1);
    return this.#tools.send(encodeAdmit(command, owner, this.#now()), value => decodeAdmitReply(value as AdmitReply));
  }

  preview(command: AdmitCommand & { readonly key: KeyOwner }): Promise<AdmissionPreview | undefined> {
    const nowMs = this.#now();
    return this.#send(['preview', nowMs, encodeAdmit(command, command.key, nowMs)]);
  }

  extend(command: ExtendCommand): Promise<Extended> {
    return this.#send(['extend', this.#now(), command, this.#nextExtension++]);
  }

  settle(command: SettleCommand, patience: 'bounded' | 'unbounded' = 'unbounded'): Promise<Settled> {
    const { send, wroteOff } = this.#tools;
    const decode = (value: unknown): Settled => {
      const settled = decodeSettleReply(value as SettleReply);
      if (settled.writtenOffNanoUsd > 0n) wroteOff(command.id, settled.writtenOffNanoUsd);
      return settled;
    };
    return send(encodeSettle(command, this.#now()), decode, patience === 'bounded');
  }

  void(id: number, reason: VoidReason): Promise<'voided' | 'not_held'> {
    return this.#send(['void', this.#now(), id, reason]);
  }

  windows(keyId: number, free: boolean): Promise<WindowState[]> {
    return this.#send(['windows', this.#now(), keyId, free]);
  }

  refusal(keyId: number): undefined | Promise<Denied | undefined> {
    const nowMs = this.#now();
    return this.#room.has(keyId, nowMs) ? undefined : this.#askRefusal(keyId, nowMs);
  }

  async #askRefusal(keyId: number, nowMs: number): Promise<Denied | undefined> {
    const { sent } = this.#room;
    const reply = await this.#send<Denied | number>(['refusal', nowMs, keyId]);
    if (typeof reply !== 'number') return reply;
    this.#room.remember(keyId, reply, { sent, nowMs });
    return undefined;
  }

  /** Clears the caches. Called before the caller of a command learns that the command has changed an account. */
  protected forget(): void {
    this.credentials.forget();
    this.#room.forget();
  }

  findCredential(hash: Uint8Array): Credential | undefined | Promise<Credential | undefined> {
    const found = this.credentials.find(hash);
    return found instanceof Promise
      ? found.then(credential => this.#markExpired(credential))
      : this.#markExpired(found);
  }

  findApiKey(keyId: number): Credential | undefined | Promise<Credential | undefined> {
    return this.credentials.findApiKey(keyId);
  }

  #now(): number {
    return this.#tools.now();
  }

  /** Sends a command. The kind of the command determines the type of the reply. */
  #send<R>(command: WireCommand): Promise<R> {
    return this.#tools.send(command, value => value as R);
  }

  #markExpired(found: Credential | undefined): Credential | undefined {
    return found?.expiresAtMs !== undefined && found.expiresAtMs <= this.#now() ? { ...found, expired: true } : found;
  }

  /** Returns the key that has this hash and its account; a denial if no key has it. */
  #findOwner(hash: Uint8Array): KeyOwner | Denied | Promise<KeyOwner | Denied> {
    const found = this.credentials.find(hash);
    return found instanceof Promise ? found.then(readKeyOwner) : readKeyOwner(found);
  }
}

function readKeyOwner(credential: Credential | undefined): KeyOwner | Denied {
  if (credential?.kind === 'api_key') return { id: credential.keyId, accountId: credential.accountId };
  const refused = credential?.disabled === true ? 'key_disabled' : 'permission_denied';
  return { kind: 'denied', code: credential === undefined ? 'invalid_api_key' : refused, windows: [] };
}
