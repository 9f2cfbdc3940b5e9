import { create } from '@bufbuild/protobuf';
import type { Item } from '../../gen/tollgate/v1/content_pb.ts';
import { StoredTurnSchema } from '../../gen/tollgate/v1/response_pb.ts';
import { countBytes } from '../../generation/large-message.ts';
import type { Clock } from '../../lib/clock.ts';
import type { BudgetLimits } from '../../lib/shared-budget.ts';

/** How long a session lasts: a minute longer than its connection can. Source: docs/interfaces/responses.md "WebSocket". */
const lifetimeMs = 61 * 60_000;
const sessionsMax = 100_000;

/** A conversation up to and including a response that was not stored. */
interface Kept {
  readonly items: readonly Item[];
  /** The size of its last turn only, because the earlier turns are shared. */
  readonly bytes: number;
  /** The size of all its turns. */
  readonly wholeBytes: number;
}

interface Session {
  readonly accountId: number;
  readonly endsAtMs: number;
  readonly responses: Map<string, Kept>;
}

/** The items of a response to keep, and of the conversation that it continues. */
export interface KeptItems {
  readonly items: readonly Item[];
  readonly ownCount: number;
  readonly beforeBytes?: number;
}

/** A session and its owner. */
export interface SessionName {
  readonly accountId: number;
  readonly session: string;
}

/**
 * Keeps responses that were not stored in memory while their client's session is open. Memory is limited for each account and in total; the oldest responses of the oldest session are evicted first.
 */
export class Sessions {
  readonly #clock: Clock;
  readonly #memory: () => BudgetLimits;
  /** In the order in which the sessions began. */
  readonly #sessions = new Map<string, Session>();
  readonly #accountBytes = new Map<number, number>();
  #bytes = 0;

  /** `memory` returns the limits for all sessions together and for those of one account. */
  constructor(clock: Clock, memory: () => BudgetLimits) {
    this.#clock = clock;
    this.#memory = memory;
  }

  /** Keeps a response. `items`: all items of the conversation up to it; the last `ownCount` of them are the response's input and output, and the others have `beforeBytes`. */
  keep(name: SessionName, responseId: string, { items, ownCount, beforeBytes = 0 }: KeptItems): void {
    const session = this.#findSession(name);
    const own = create(StoredTurnSchema, { output: items.slice(items.length - ownCount) });
    const bytes = countBytes(StoredTurnSchema, own);
    this.#drop(session, responseId);
    session.responses.set(responseId, { items, bytes, wholeBytes: beforeBytes + bytes });
    this.#count(session.accountId, bytes);
    const { max, ownerMax } = this.#memory();
    this.#shrink(() => (this.#accountBytes.get(name.accountId) ?? 0) > ownerMax, name.accountId);
    this.#shrink(() => this.#bytes > max);
  }

  /** Returns the conversation up to and including a response; undefined if the session has none with that id. */
  find(name: SessionName | undefined, responseId: string): Pick<Kept, 'items' | 'wholeBytes'> | undefined {
    if (name === undefined) return undefined;
    return this.#sessions.get(toKey(name))?.responses.get(responseId);
  }

  /**
   * Removes a response from its session. Called with the previous response of a turn that failed; does nothing if there is no session or no previous response.
   * Source: docs/interfaces/responses.md "WebSocket".
   */
  evict(name: SessionName | undefined, responseId: string | undefined): void {
    if (name === undefined || responseId === undefined) return;
    const session = this.#sessions.get(toKey(name));
    if (session !== undefined) this.#drop(session, responseId);
  }

  end(name: SessionName): void {
    this.#end(toKey(name));
  }

  #end(key: string): void {
    const session = this.#sessions.get(key);
    if (session === undefined) return;
    for (const responseId of session.responses.keys()) this.#drop(session, responseId);
    this.#sessions.delete(key);
  }

  /** Evicts the oldest responses of the oldest sessions while `isTooMuch` returns true. `accountId`: only sessions of that account. */
  #shrink(isTooMuch: () => boolean, accountId?: number): void {
    if (!isTooMuch()) return;
    for (const session of this.#sessions.values()) {
      if (accountId !== undefined && session.accountId !== accountId) continue;
      for (const responseId of session.responses.keys()) {
        this.#drop(session, responseId);
        if (!isTooMuch()) return;
      }
    }
  }

  #drop(session: Session, responseId: string): void {
    const kept = session.responses.get(responseId);
    if (kept === undefined) return;
    session.responses.delete(responseId);
    this.#count(session.accountId, -kept.bytes);
  }

  #count(accountId: number, bytes: number): void {
    this.#bytes += bytes;
    const after = (this.#accountBytes.get(accountId) ?? 0) + bytes;
    if (after === 0) this.#accountBytes.delete(accountId);
    else this.#accountBytes.set(accountId, after);
  }

  #findSession(name: SessionName): Session {
    const nowMs = this.#clock.now();
    for (const [key, { endsAtMs }] of this.#sessions) {
      // Sessions are in the order of their end, so the first one that has not ended stops the search.
      if (endsAtMs > nowMs && this.#sessions.size < sessionsMax) break;
      this.#end(key);
    }
    const key = toKey(name);
    const { accountId } = name;
    const session = this.#sessions.get(key) ?? { accountId, endsAtMs: nowMs + lifetimeMs, responses: new Map() };
    this.#sessions.set(key, session);
    return session;
  }
}

function toKey({ accountId, session }: SessionName): string {
  return `${accountId}:${session}`;
}
