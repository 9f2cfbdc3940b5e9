import { once } from 'node:events';
import { WebSocket } from 'ws';

/** A client of the WebSocket transport, without a library. */

/** A message of the gateway. */
export interface SocketEvent {
  readonly type: string;
  readonly sequence_number?: number;
  readonly status?: number;
  readonly delta?: string;
  readonly code?: string;
  readonly error?: {
    readonly code: string;
    readonly message: string;
    readonly param: string | null;
    readonly type: string;
  };
  readonly response?: SocketResponse;
}

/** The members of a response that tests check. */
export interface SocketResponse {
  readonly id: string;
  readonly status: string;
  readonly store: boolean;
  readonly previous_response_id: string | null;
  readonly usage: { readonly input_tokens: number; readonly cost: number } | null;
  readonly output: readonly {
    readonly type: string;
    readonly call_id?: string;
    readonly content?: readonly { readonly text: string }[];
  }[];
}

const terminals = new Set(['response.completed', 'response.incomplete', 'response.failed', 'error']);

/** One connection. */
export class SocketClient {
  readonly socket: WebSocket;
  readonly #events: SocketEvent[] = [];
  #wake: (() => void) | undefined;
  /** The code with which the gateway closed the connection; undefined while it is open. */
  closeCode: number | undefined;

  private constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('message', data => {
      this.#events.push(JSON.parse((data as Buffer).toString('utf8')) as SocketEvent);
      this.#wake?.();
    });
    socket.on('close', code => {
      this.closeCode = code;
      this.#wake?.();
    });
  }

  /** Opens a connection; throws the error of `ws` if the gateway refuses it. */
  static async open(url: string, apiKey: string): Promise<SocketClient> {
    const address = `${url.replace('http', 'ws')}/v1/responses`;
    const socket = new WebSocket(address, { headers: { authorization: `Bearer ${apiKey}` } });
    const client = new SocketClient(socket);
    await once(socket, 'open');
    return client;
  }

  /** Sends a `response.create`. */
  create(body: Readonly<Record<string, unknown>>): void {
    this.socket.send(JSON.stringify({ type: 'response.create', ...body }));
  }

  /** Returns the next message; throws if the connection ends first. */
  async next(): Promise<SocketEvent> {
    while (this.#events.length === 0) {
      if (this.closeCode !== undefined) throw new Error(`closed with ${this.closeCode}`);
      await new Promise<void>(resolve => {
        this.#wake = resolve;
      });
    }
    const event = this.#events.shift();
    if (event === undefined) throw new Error('no event');
    return event;
  }

  /** Returns all events of the next turn, up to its end. A failed response ends with `error` and `response.failed`. */
  async turn(): Promise<SocketEvent[]> {
    const events: SocketEvent[] = [];
    for (;;) {
      const event = await this.next();
      events.push(event);
      const isOwnError = event.type === 'error' && event.sequence_number !== undefined;
      if (terminals.has(event.type) && !isOwnError) return events;
    }
  }

  /** Sends a turn and waits for its end; returns the final response, or the error with which it failed. */
  async ask(body: Readonly<Record<string, unknown>>): Promise<{ response: SocketResponse } | { error: SocketEvent }> {
    this.create(body);
    const last = (await this.turn()).at(-1);
    if (last?.response !== undefined) return { response: last.response };
    if (last === undefined) throw new Error('a turn without an end');
    return { error: last };
  }

  /** Closes the connection and waits until it is closed. */
  async close(): Promise<void> {
    if (this.closeCode !== undefined) return;
    this.socket.close();
    await once(this.socket, 'close');
  }
}

/** Returns the text of a response's messages. */
export function outputText({ output }: SocketResponse): string {
  return output
    .flatMap(item => item.content ?? [])
    .map(part => part.text)
    .join('');
}
