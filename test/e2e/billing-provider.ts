/** A Chat provider over HTTP with hidden reasoning. It streams slowly, stops when its client disconnects, and keeps its own bill, with another tokenizer and chat template than the gateway's. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

type Json = Record<string, unknown>;

/** What the provider counted for one request. */
export interface Bill {
  readonly input: number;
  output: number;
  reasoning: number;
  /** Whether the answer was delivered completely. */
  isWhole: boolean;
}

/** What the prompt's last line requests. */
interface Instructions {
  /** The text that the answer repeats. */
  readonly say: string;
  /** How many times the answer repeats the text. */
  readonly times: number;
  /** How long it reasons first, in ms. */
  readonly thinkMs: number;
}

/** The form in which the provider reports counts while it streams; undefined: it does not. */
export type RunningCount = 'timings' | 'usage' | undefined;

/** Tokens that the provider's chat template adds to every prompt. */
export const templateTokens = 25;
const reasoningTokensPerMs = 0.4;

/** Counts tokens as the provider does: a token is up to three letters or any other character that is not a space; an East Asian character is one and a half. */
export function countTokens(text: string): number {
  const wide = text.match(/[\u2e80-\uffff]/g)?.length ?? 0;
  return Math.ceil(wide * 1.5) + (text.match(/[a-z]{1,3}|[^a-z\s\u2e80-\uffff]/gi)?.length ?? 0);
}

/** The provider. */
export class BillingProvider {
  readonly bills: Bill[] = [];
  readonly bodies: Json[] = [];
  readonly #running: RunningCount;
  readonly #server: Server;

  private constructor(running: RunningCount) {
    this.#running = running;
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  static async start(running?: RunningCount): Promise<BillingProvider> {
    const provider = new BillingProvider(running);
    provider.#server.listen(0, '127.0.0.1');
    await once(provider.#server, 'listening');
    return provider;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = JSON.parse(Buffer.concat(parts).toString()) as Json;
    this.bodies.push(body);
    const messages = body['messages'] as { content: string }[];
    const input = templateTokens + messages.reduce((sum, { content }) => sum + countTokens(content), 0);
    const bill: Bill = { input, output: 0, reasoning: 0, isWhole: false };
    this.bills.push(bill);
    const instructions = JSON.parse(messages.at(-1)?.content.split('\n').at(-1) ?? '{}') as Instructions;
    const isStream = body['stream'] === true;
    if (isStream) response.setHeader('content-type', 'text/event-stream').flushHeaders();
    await this.#think(instructions.thinkMs, bill, response);
    for (let time = 0; time < instructions.times && !response.destroyed; time += 1) {
      await sleep(5);
      if (response.destroyed) break;
      bill.output += countTokens(instructions.say);
      if (isStream) response.write(this.#chunk({ delta: { content: instructions.say } }, bill));
    }
    if (response.destroyed) return;
    bill.isWhole = true;
    this.#end(response, { bill, instructions, isStream });
  }

  async #think(ms: number, bill: Bill, response: ServerResponse): Promise<void> {
    const start = performance.now();
    while (!response.destroyed && performance.now() - start < ms) {
      await sleep(5);
      const ran = Math.min(ms, performance.now() - start);
      bill.reasoning = Math.round(ran * reasoningTokensPerMs);
      bill.output = bill.reasoning;
      if (this.#running !== undefined && response.headersSent) response.write(this.#chunk({ delta: {} }, bill));
    }
  }

  #end(
    response: ServerResponse,
    {
      bill,
      instructions,
      isStream,
    }: { readonly bill: Bill; readonly instructions: Instructions; readonly isStream: boolean },
  ): void {
    const usage = toUsage(bill);
    if (!isStream) {
      const message = { role: 'assistant', content: instructions.say.repeat(instructions.times) };
      const choices = [{ index: 0, message, finish_reason: 'stop' }];
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model: 'm', choices, usage }));
      return;
    }
    response.write(this.#chunk({ delta: {}, finish_reason: 'stop' }, bill));
    response.write(data({ choices: [], usage }));
    response.end('data: [DONE]\n\n');
  }

  #chunk(choice: Json, bill: Bill): string {
    const running = {
      timings: { timings: { prompt_n: bill.input, cache_n: 0, predicted_n: bill.output } },
      usage: { usage: toUsage(bill) },
    };
    return data({
      choices: [{ index: 0, finish_reason: null, ...choice }],
      ...(this.#running === undefined ? {} : running[this.#running]),
    });
  }
}

function toUsage({ input, output, reasoning }: Bill): Json {
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    completion_tokens_details: { reasoning_tokens: reasoning },
  };
}

function data(members: Json): string {
  return `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', ...members })}\n\n`;
}
