import { setTimeout as sleep } from 'node:timers/promises';
import { sseMessages } from './sse-reader.ts';

/** A client of the Responses interface over plain HTTP, without a library. */

/** A complete response object; tests compare it as a value. */
export type Resource = Readonly<Record<string, unknown>> & {
  readonly id: string;
  readonly status: string;
  readonly error: { readonly code: string; readonly message: string } | null;
  readonly usage: Readonly<Record<string, unknown>> | null;
  readonly output: readonly (Readonly<Record<string, unknown>> & { readonly type: string })[];
};

/** An event of a stream. */
export type ResourceEvent = Readonly<Record<string, unknown>> & {
  readonly type: string;
  readonly sequence_number: number;
  readonly response?: Resource;
};

/** An answer of any status. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
}

/** A client of one gateway with one key. */
export class ResponsesCaller {
  readonly #base: string;
  readonly #apiKey: string;

  constructor(gateway: { readonly url: string }, apiKey: string) {
    this.#base = `${gateway.url}/v1/responses`;
    this.#apiKey = apiKey;
  }

  /** Sends a request to a path below `/v1/responses`. */
  fetch(
    method: string,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Response> {
    return fetch(this.#base + path, {
      method,
      headers: {
        authorization: `Bearer ${this.#apiKey}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }

  /** Sends a request to a path below `/v1/responses`, and reads the body. */
  async ask(method: string, path: string, body?: unknown): Promise<Answer> {
    const response = await this.fetch(method, path, body);
    return { status: response.status, headers: response.headers, body: await response.json() };
  }

  /** Makes a response; throws if it is refused. */
  create(body: unknown): Promise<Resource> {
    return this.#resource('POST', '', body);
  }

  /** Reads a response; throws if it is refused. */
  get(id: string): Promise<Resource> {
    return this.#resource('GET', `/${id}`);
  }

  /** Reads a response as a stream: POST with a body makes one, GET with a query follows one. */
  async stream(method: 'GET' | 'POST', path: string, body?: unknown): Promise<ResourceEvent[]> {
    const response = await this.fetch(method, path, body);
    if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
    return parseEvents(await response.text());
  }

  /** Waits until a response has ended. */
  async ended(id: string): Promise<Resource> {
    for (const deadline = performance.now() + 30_000; performance.now() < deadline; await sleep(20)) {
      const response = await this.get(id);
      if (response.status !== 'queued' && response.status !== 'in_progress') return response;
    }
    throw new Error(`${id} does not end`);
  }

  async #resource(method: string, path: string, body?: unknown): Promise<Resource> {
    const answer = await this.ask(method, path, body);
    if (answer.status !== 200) throw new Error(`${answer.status}: ${JSON.stringify(answer.body)}`);
    return answer.body as Resource;
  }
}

/** Returns the events in a stream's text, without `[DONE]`. */
export function parseEvents(text: string): ResourceEvent[] {
  return sseMessages(text)
    .filter(data => data !== '[DONE]')
    .map(data => JSON.parse(data) as ResourceEvent);
}

/** Returns the text of a response's messages. */
export function readText({ output }: Resource): string {
  return output
    .flatMap(item => (item['content'] ?? []) as { readonly text?: string }[])
    .map(part => part.text ?? '')
    .join('');
}
