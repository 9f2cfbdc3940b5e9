/**
 * The gateway that tests of coding agents call. It has a built-in model, and models of a second gateway that are reached through every upstream protocol. The requests that each upstream gets are recorded.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { GeminiServer, geminiKey } from '../clients/gemini-server.ts';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

/** The body of a request that an upstream received. */
export type SentJson = Readonly<Record<string, unknown>>;

/** A proxy that records the requests. */
class Recorder {
  readonly texts: string[] = [];
  readonly headers: IncomingMessage['headers'][] = [];
  readonly #server: Server;
  readonly #target: string;

  constructor(target: string) {
    this.#target = target;
    this.#server = createServer((request, response) => {
      this.#pass(request, response).catch((error: unknown) => response.destroy(error as Error));
    });
  }

  async start(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  async #pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    this.texts.push(body.toString('utf8'));
    this.headers.push(request.headers);
    const { host: _, connection: __, 'content-length': ___, 'transfer-encoding': ____, ...headers } = request.headers;
    const answer = await fetch(`${this.#target}${request.url ?? ''}`, {
      method: request.method ?? 'POST',
      headers: headers as Record<string, string>,
      body,
    });
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' });
    if (answer.body === null) response.end();
    else Readable.fromWeb(answer.body).pipe(response);
  }
}

/** The built-in model, and one model for each upstream protocol. */
export const chainModels = ['sim/large', 'via/messages', 'via/chat', 'via/responses', 'via/gemini'] as const;
/** A model of the chain. */
export type ChainModel = (typeof chainModels)[number];

/** The two gateways, and what the upstreams of the first one received. */
export interface AgentChain {
  readonly gateway: Gateway;
  /** Returns the body of the latest request to a model's upstream, as text. */
  sentText(model: ChainModel): string;
  /** Returns the parsed body of the latest request to a model's upstream. */
  sent(model: ChainModel): SentJson;
  /** Returns the headers of the latest request to a model's upstream. */
  sentHeaders(model: ChainModel): IncomingMessage['headers'];
  end(): Promise<void>;
}

/** Starts both gateways. */
export async function startAgentChain(): Promise<AgentChain> {
  const inner = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\nretries: 0\n', balance: '100' });
  const gemini = await GeminiServer.start(inner);
  const recorders = new Map<string, Recorder>();
  const addresses: Record<string, string> = {};
  for (const protocol of ['messages', 'chat', 'responses', 'gemini']) {
    const recorder = new Recorder(protocol === 'gemini' ? gemini.baseUrl : inner.url);
    recorders.set(`via/${protocol}`, recorder);
    const version = protocol === 'chat' || protocol === 'responses' ? '/v1' : '';
    addresses[protocol] = `${await recorder.start()}${version}`;
  }
  const gateway = await startGateway({
    config: frontConfig(addresses),
    environment: { INNER_KEY: inner.apiKey, GEMINI_KEY: geminiKey },
  });
  const findRecorder = (model: ChainModel): Recorder => {
    const recorder = recorders.get(model);
    if (recorder === undefined) throw new Error(`${model} has no upstream`);
    return recorder;
  };
  return {
    gateway,
    sentText: model => findRecorder(model).texts.at(-1) ?? '',
    sent: model => JSON.parse(findRecorder(model).texts.at(-1) ?? '') as SentJson,
    sentHeaders: model => findRecorder(model).headers.at(-1) ?? {},
    end: async () => {
      await endGateway(gateway);
      for (const recorder of recorders.values()) await recorder.stop();
      await gemini.stop();
      await endGateway(inner);
    },
  };
}

function frontConfig(addresses: Readonly<Record<string, string>>): string {
  const providers = Object.entries(addresses).map(([protocol, address]) => {
    const key = protocol === 'gemini' ? 'GEMINI_KEY' : 'INNER_KEY';
    return `  ${protocol}: { protocol: ${protocol}, base_url: "${address}", api_key: "\${${key}}" }`;
  });
  const models = Object.keys(addresses).map(
    protocol => `
  - id: via/${protocol}
    context_length: 128000
    max_output_tokens: 16384
    endpoints: [/v1/chat/completions, /v1/responses, /v1/messages]
    capabilities: { vision: true, function_call: true, reasoning: true, service_tiers: [] }
    pricing: { input: 1, output: 4 }
    routes: [{ provider: ${protocol}, model: ${protocol === 'gemini' ? 'gemini-2.5-flash' : 'sim/large'} }]`,
  );
  return `
retries: 0
simulator: { tokens_per_second: 0 }
providers:
${providers.join('\n')}
models:${models.join('')}
`;
}
