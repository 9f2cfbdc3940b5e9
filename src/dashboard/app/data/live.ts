import { createClient } from '@connectrpc/connect';
import { DashboardService, type WatchNowResponse } from '../../../gen/tollgate/v1/dashboard_pb.ts';
import { noteFailure, transport } from './rpc.ts';

const dashboard = createClient(DashboardService, transport);
const accountHeader = 'x-tollgate-account-id';
const firstRetryMs = 500;
const lastRetryMs = 8_000;

/** The current state; `message` is absent until the first one has come. */
export interface LiveState {
  readonly message?: WatchNowResponse;
  /** True if the stream has broken and is being opened again. */
  readonly isLost: boolean;
}

const closed: LiveState = { isLost: false };

/** Identifies a stream. Tabs with the same scope share one stream. */
export interface LiveScope {
  readonly sessionId: bigint;
  readonly accountId: bigint;
  /** True for the operator, whose calls name the account. */
  readonly isOperator: boolean;
}

/** Messages between tabs: the state, or a new tab's request for it. */
type TabMessage = LiveState | 'hello';

/**
 * The stream of the current state. All tabs of a browser share one stream, because six open streams would block every other call. The tab
 * that has the lock reads the stream and passes it on; when that tab closes, another takes over. Browsers have locks only for secure
 * origins; elsewhere each tab opens its own stream.
 */
class LiveChannel {
  readonly #scope: LiveScope;
  readonly #stop = new AbortController();
  readonly #tabs: BroadcastChannel;
  readonly #listener: () => void;
  #state: LiveState = { isLost: false };
  #isReader = false;

  constructor(scope: LiveScope, listener: () => void) {
    this.#scope = scope;
    this.#listener = listener;
    const name = `tollgate-live ${scope.sessionId} ${scope.accountId}`;
    this.#tabs = new BroadcastChannel(name);
    this.#tabs.addEventListener('message', ({ data }: MessageEvent<TabMessage>) => this.#hear(data));
    this.#tabs.postMessage('hello' satisfies TabMessage);
    void this.#begin(name);
  }

  /** Returns the current state. */
  read(): LiveState {
    return this.#state;
  }

  /** Stops reading and passing on the stream in this tab. */
  close(): void {
    this.#stop.abort();
    this.#tabs.close();
  }

  async #begin(name: string): Promise<void> {
    const { signal } = this.#stop;
    try {
      const locks = 'locks' in navigator ? navigator.locks : undefined;
      await (locks === undefined ? this.#follow() : locks.request(name, { signal }, () => this.#follow()));
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  #hear(message: TabMessage): void {
    if (message !== 'hello') return this.#set(message);
    if (this.#isReader) this.#tabs.postMessage(this.#state);
    return undefined;
  }

  #set(state: LiveState): void {
    this.#state = state;
    this.#listener();
  }

  #tell(state: LiveState): void {
    this.#set(state);
    if (!this.#stop.signal.aborted) this.#tabs.postMessage(state);
  }

  /** Reads the stream, and opens it again whenever it ends, until `close` is called. */
  async #follow(): Promise<void> {
    const { signal } = this.#stop;
    this.#isReader = true;
    for (let waitMs = firstRetryMs; !signal.aborted; waitMs = Math.min(waitMs * 2, lastRetryMs)) {
      try {
        const headers = this.#scope.isOperator ? { [accountHeader]: `${this.#scope.accountId}` } : {};
        for await (const message of dashboard.watchNow({}, { signal, headers })) {
          waitMs = firstRetryMs;
          this.#tell({ message, isLost: false });
        }
      } catch (error) {
        if (signal.aborted) return;
        noteFailure(error);
      }
      this.#tell({ ...this.#state, isLost: true });
      await new Promise(done => {
        setTimeout(done, waitMs);
      });
    }
  }
}

/** Keeps the channel open while there is a listener. */
export class LiveConnection {
  readonly #scope: LiveScope;
  #channel: LiveChannel | undefined;

  constructor(scope: LiveScope) {
    this.#scope = scope;
  }

  /** Returns the current state. */
  readonly read = (): LiveState => this.#channel?.read() ?? closed;

  /** Opens the channel and calls `listener` after each change. Returns a function that closes the channel. React has at most one listener at a time. */
  readonly subscribe = (listener: () => void): (() => void) => {
    const channel = new LiveChannel(this.#scope, listener);
    this.#channel = channel;
    return () => {
      channel.close();
      this.#channel = undefined;
    };
  };
}
