import { create, toBinary } from '@bufbuild/protobuf';
import type { Item } from '../../gen/tollgate/v1/content_pb.ts';
import { StoredTurnSchema } from '../../gen/tollgate/v1/response_pb.ts';
import type { Clock } from '../../lib/clock.ts';

/** A session may be forgotten so long after it began: a minute more than a connection lives. Source: decisions §4, "WebSocket". */
const lifetimeMs = 61 * 60_000;
/** What the responses of one session may take; the oldest go first. */
const sessionBytesMax = 256 * 1024 ** 2;
const sessionsMax = 100_000;

/** A conversation up to and with a response that was not stored. */
interface Kept {
  readonly items: readonly Item[];
  /** Of its own turn alone: what came before is shared. */
  readonly bytes: number;
}

interface Session {
  readonly endsAtMs: number;
  readonly responses: Map<string, Kept>;
  bytes: number;
}

/** Which session of whose. */
export interface SessionName {
  readonly accountId: number;
  readonly session: string;
}

/** Responses that were not stored, for as long as their caller's session lives. In memory alone: nothing of them is left behind. */
export class Sessions {
  readonly #clock: Clock;
  readonly #sessions = new Map<string, Session>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Keeps a response: all items up to it, of which the last `ownCount` are its own input and output. */
  keep(name: SessionName, responseId: string, items: readonly Item[], ownCount: number): void {
    const session = this.#sessionOf(name);
    const own = create(StoredTurnSchema, { output: items.slice(items.length - ownCount) });
    const bytes = toBinary(StoredTurnSchema, own).length;
    session.responses.set(responseId, { items, bytes });
    session.bytes += bytes;
    for (const id of session.responses.keys()) {
      if (session.bytes <= sessionBytesMax) break;
      this.#drop(session, id);
    }
  }

  /** The conversation up to and with a response; undefined where the session has none of that id. */
  find(name: SessionName | undefined, responseId: string): readonly Item[] | undefined {
    if (name === undefined) return undefined;
    return this.#sessions.get(keyOf(name))?.responses.get(responseId)?.items;
  }

  /**
   * Forgets a response, if the session has it: a turn that fails makes its session forget the response that it refers to. Does nothing for a turn without either. Source:
   * decisions §4, "WebSocket".
   */
  evict(name: SessionName | undefined, responseId: string | undefined): void {
    if (name === undefined || responseId === undefined) return;
    const session = this.#sessions.get(keyOf(name));
    if (session !== undefined) this.#drop(session, responseId);
  }

  end(name: SessionName): void {
    this.#sessions.delete(keyOf(name));
  }

  #drop(session: Session, responseId: string): void {
    session.bytes -= session.responses.get(responseId)?.bytes ?? 0;
    session.responses.delete(responseId);
  }

  #sessionOf(name: SessionName): Session {
    const nowMs = this.#clock.now();
    for (const [key, { endsAtMs }] of this.#sessions) {
      // In the order of their beginning: the first that still lives ends the search.
      if (endsAtMs > nowMs && this.#sessions.size < sessionsMax) break;
      this.#sessions.delete(key);
    }
    const key = keyOf(name);
    const session = this.#sessions.get(key) ?? { endsAtMs: nowMs + lifetimeMs, responses: new Map(), bytes: 0 };
    this.#sessions.set(key, session);
    return session;
  }
}

function keyOf({ accountId, session }: SessionName): string {
  return `${accountId}:${session}`;
}
