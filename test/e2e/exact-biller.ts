/** A provider that bills what it was sent, member by member, slowly and exactly: the reference for what accounts are charged. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Json } from './scripted-upstream.ts';

/** Prices in dollars per 1 million tokens, and per call of a tool; the configuration of the gateway has the same. */
export const price = { input: 3, output: 15, read: 0.3, write5m: 3.75, write30m: 4, write1h: 6, write12h: 8 } as const;
/** Dollars per call of a tool. */
export const callPrice = { web_search: 0.01, code_execution: 0.005 } as const;
/** The factors of tiers. */
export const tierFactors: Readonly<Record<string, number>> = { flex: 0.5, priority: 2, ultrafast: 4 };

/** What the provider bills for an answer, in nano-dollars, rounded once. */
export interface Bill {
  readonly nanoUsd: bigint;
}

/** Returns a number from 0 to `max`, with both. */
export type Pick = (max: number) => number;

/** Returns a generator of pseudo-random numbers (mulberry32). */
export function makePick(seed: number): Pick {
  let state = seed >>> 0;
  return max => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * (max + 1));
  };
}

const list = (value: unknown): Json[] => (Array.isArray(value) ? (value as Json[]) : []);
const object = (value: unknown): Json => (typeof value === 'object' && value !== null ? (value as Json) : {});
const count = (value: unknown): number => (Number.isFinite(Number(value)) ? Number(value) : 1);

/** Returns all objects of a body, itself included. */
function everything(body: unknown): Json[] {
  if (typeof body !== 'object' || body === null) return [];
  return [body as Json, ...Object.values(body).flatMap(everything)];
}

/** Returns how many samples a body asks for: the product of nothing, the largest of all members that name a number. */
function samples(all: readonly Json[]): number {
  const names = [
    'n',
    'best_of',
    'num_beams',
    'num_return_sequences',
    'num_samples',
    'candidateCount',
    'candidate_count',
  ];
  const counts = all.flatMap(each => names.map(name => (each[name] == null ? 1 : count(each[name]))));
  const beams = all.some(each => each['use_beam_search'] === true) ? 4 : 1;
  return Math.max(1, beams, ...counts);
}

/** Members that cost whatever they are set to, except these values. */
const surcharges: Readonly<Record<string, readonly unknown[]>> = {
  plugins: [],
  audio: [],
  speechConfig: [],
  imageConfig: [],
  cachedContent: [''],
  data_sources: [],
  billing_policy: [],
  fallbacks: [],
  models: [],
  completion_window: [],
  routingConfig: [],
};

function factor(body: Json, all: readonly Json[], isGemini: boolean): number {
  const word = JSON.stringify((isGemini ? body['serviceTier'] : undefined) ?? body['service_tier'] ?? 'default')
    .toLowerCase()
    .replaceAll('"', '');
  const isStandard = ['auto', 'default', 'standard', 'standard_only', 'on_demand', 'unspecified'].includes(word);
  const tier = isStandard ? 1 : ((word === 'fast' ? 2 : tierFactors[word]) ?? 50);
  const speed = all.some(({ speed: value }) => value != null && value !== 'standard') ? 6 : 1;
  const geo = all.some(({ inference_geo: value }) => value != null && value !== 'global') ? 2 : 1;
  return tier * speed * geo;
}

/** Returns the dollars for members that have a price of their own, without those of tools that are reported. */
function surcharge(all: readonly Json[]): number {
  let dollars = 0;
  for (const each of all) {
    for (const [name, free] of Object.entries(surcharges)) {
      if (each[name] != null && !free.includes(each[name])) dollars += 1;
    }
    const modalities = list(each['modalities'] ?? each['responseModalities']).map(String);
    if (modalities.some(name => name.toLowerCase() !== 'text')) dollars += 1;
  }
  return dollars;
}

/** The price of what was written to a cache, by the longest lifetime that a body names. */
function writePrice(raw: string): number {
  if (raw.includes('"12h"')) return price.write12h;
  if (raw.includes('"1h"')) return price.write1h;
  return raw.includes('"30m"') ? price.write30m : price.write5m;
}

/** The work of one answer: its tokens, and the calls of tools that it made. */
interface Work {
  readonly input: number;
  readonly read: number;
  readonly written: number;
  readonly output: number;
  readonly reasoning: number;
  readonly searches: number;
  readonly runs: number;
  /** Input and output of a pass beside the answer (Messages). */
  readonly pass: number;
  /** True if what was written is kept for an hour, which only Messages reports. */
  readonly isHour: boolean;
}

/** A server that answers every protocol's path, and keeps what it bills by the word "case-N" in the prompt. */
export class ExactBiller {
  readonly bills = new Map<string, Bill>();
  readonly #server: Server;
  readonly #pick: Pick;

  private constructor(seed: number) {
    this.#pick = makePick(seed);
    this.#server = createServer((request, response) => {
      void (async () => {
        const parts: Buffer[] = [];
        for await (const part of request) parts.push(part as Buffer);
        const raw = Buffer.concat(parts).toString();
        response.setHeader('content-type', 'application/json');
        response.end(JSON.stringify(this.#answer(String(request.url), raw)));
      })();
    });
  }

  static async start(seed: number): Promise<ExactBiller> {
    const provider = new ExactBiller(seed);
    provider.#server.listen(0, '127.0.0.1');
    await once(provider.#server, 'listening');
    return provider;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** Returns how often code is run: as often as the protocol can report; without a report once for each choice with a container. */
  #runs(url: string, body: Json, isOffered: boolean): number {
    const hasContainer = body['container'] != null;
    if (url.includes('messages') || url.includes('enerateContent')) {
      return isOffered || hasContainer ? this.#pick(2) + (hasContainer ? 1 : 0) : 0;
    }
    return hasContainer ? count(body['n'] ?? 1) : 0;
  }

  #answer(url: string, raw: string): Json {
    const body = JSON.parse(raw) as Json;
    const all = everything(body);
    const tools = list(body['tools']).flatMap(tool => [
      JSON.stringify(tool['type'] ?? '').replaceAll('"', ''),
      ...Object.keys(tool),
    ]);
    const asksFor = (name: RegExp): boolean => tools.some(tool => name.test(tool));
    const searching =
      asksFor(/^web_search|^google_?search$/i) ||
      body['web_search_options'] != null ||
      body['search_parameters'] != null;
    const isText = !url.includes('embeddings');
    const work: Work = {
      input: 1 + this.#pick(2000),
      read: isText && this.#pick(3) === 0 ? this.#pick(1500) : 0,
      written: isText && !url.includes('enerateContent') && raw.includes('cache') ? this.#pick(1500) : 0,
      output: isText ? (1 + this.#pick(20)) * samples(all) : 0,
      reasoning: isText && this.#pick(2) === 0 ? this.#pick(20) : 0,
      searches: searching ? 1 + this.#pick(2) : 0,
      runs: this.#runs(url, body, asksFor(/^code_?execution/i)),
      isHour: writePrice(raw) === price.write1h,
      pass: url.includes('messages') && this.#pick(9) === 0 ? 1 + this.#pick(3000) : 0,
    };
    const unpricedTools = tools.filter(tool =>
      /^(?:file_?search|code_interpreter|image_generation|advisor|google_?maps)/i.test(tool),
    );
    const tokens =
      work.input * price.input +
      work.read * price.read +
      work.written * writePrice(raw) +
      (work.output + work.reasoning) * price.output +
      work.pass * (price.input + price.output);
    const calls = work.searches * callPrice.web_search + work.runs * callPrice.code_execution;
    const dollars = surcharge(all) + unpricedTools.length;
    // In units of 10^-12 dollars: prices have at most two decimals, factors one.
    const pico = BigInt(Math.round(tokens * factor(body, all, url.includes('enerateContent')) * 1000)) * 1000n;
    const nanoUsd = (pico + 500n) / 1000n + BigInt(Math.round((calls + dollars) * 1e9));
    this.bills.set(/case-\d+/.exec(raw)?.[0] ?? '', { nanoUsd });
    return render(url, work, Math.max(1, count(body['n'] ?? object(body['generationConfig'])['candidateCount'] ?? 1)));
  }
}

function render(url: string, work: Work, choices: number): Json {
  if (url.includes('messages')) return renderMessages(work);
  if (url.includes('responses')) return renderResponses(work);
  if (url.includes('enerateContent')) return renderGemini(work, choices);
  if (url.includes('embeddings')) {
    return {
      object: 'list',
      data: [{ index: 0, embedding: [1] }],
      usage: { prompt_tokens: work.input, total_tokens: work.input },
    };
  }
  return renderChat(work, choices, url.includes('/chat/'));
}

function renderChat(work: Work, choices: number, isChat: boolean): Json {
  const { input, read, written, output, reasoning, searches } = work;
  const said = {
    finish_reason: 'stop',
    ...(isChat ? { message: { role: 'assistant', content: 'Yes.' } } : { text: 'Yes.' }),
  };
  return {
    id: 'c',
    object: isChat ? 'chat.completion' : 'text_completion',
    choices: Array.from({ length: choices }, (_, index) => ({ index, ...said })),
    usage: {
      prompt_tokens: input + read + written,
      completion_tokens: output + reasoning,
      total_tokens: input + read + written + output + reasoning,
      prompt_tokens_details: { cached_tokens: read, cache_write_tokens: written },
      completion_tokens_details: { reasoning_tokens: reasoning },
      ...(searches > 0 ? { num_search_queries: searches } : {}),
    },
  };
}

function renderResponses({ input, read, written, output, reasoning, searches }: Work): Json {
  const call = { type: 'web_search_call', status: 'completed', action: { type: 'search' } };
  const said = { id: 'm', type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Yes.' }] };
  return {
    id: 'r',
    object: 'response',
    status: 'completed',
    output: [...Array.from({ length: searches }, (_, index) => ({ id: `w${index}`, ...call })), said],
    usage: {
      input_tokens: input + read + written,
      input_tokens_details: { cached_tokens: read, cache_write_tokens: written },
      output_tokens: output + reasoning,
      output_tokens_details: { reasoning_tokens: reasoning },
      total_tokens: input + read + written + output + reasoning,
    },
  };
}

function renderMessages({ input, read, written, output, reasoning, searches, runs, pass, isHour }: Work): Json {
  const own = {
    input_tokens: input,
    cache_read_input_tokens: read,
    cache_creation_input_tokens: written,
    ...(isHour ? { cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: written } } : {}),
    output_tokens: output + reasoning,
  };
  const ran = { web_search_requests: searches, code_execution_requests: runs };
  const iterations = [
    { type: 'compaction', input_tokens: pass, output_tokens: pass },
    { type: 'message', ...own },
  ];
  return {
    id: 'm',
    type: 'message',
    role: 'assistant',
    content: [{ type: 'text', text: 'Yes.' }],
    stop_reason: 'end_turn',
    usage: { ...own, server_tool_use: ran, ...(pass > 0 ? { iterations } : {}) },
  };
}

function renderGemini({ input, read, output, reasoning, searches, runs, written }: Work, choices: number): Json {
  const ran = Array.from({ length: runs }, () => ({ executableCode: { language: 'PYTHON', code: '1' } }));
  const queries = Array.from({ length: searches }, (_, index) => `q${index}`);
  const first = searches > 0 ? { groundingMetadata: { webSearchQueries: queries } } : {};
  return {
    candidates: Array.from({ length: choices }, (_, index) => ({
      index,
      content: { role: 'model', parts: [...(index === 0 ? ran : []), { text: 'Yes.' }] },
      finishReason: 'STOP',
      ...(index === 0 ? first : {}),
    })),
    modelVersion: 'gemini-3.5-flash',
    usageMetadata: {
      promptTokenCount: input + read + written,
      cachedContentTokenCount: read,
      candidatesTokenCount: output,
      thoughtsTokenCount: reasoning,
      totalTokenCount: input + read + written + output + reasoning,
    },
  };
}
