/**
 * The target of the conversation suites: a gateway on its built-in models, or one whose upstream is such a gateway
 * over HTTP. A suite that is imported after `speakThroughSecondGateway()` runs against the latter: every request then
 * goes through the upstream client and back.
 */
import { expect } from 'vitest';
import { endGateway, type Gateway, startGateway } from '../gateway.ts';
import { geminiKey, GeminiServer } from './gemini-server.ts';

const builtIn = 'simulator: { tokens_per_second: 0 }\nkeep_alive: 50ms\n';
/** The protocols that upstreams can speak. */
export type UpstreamName = 'chat' | 'messages' | 'gemini' | 'responses';
let behind: UpstreamName | undefined;
const innerGateways = new WeakMap<Gateway, Gateway>();
const servers = new WeakMap<Gateway, GeminiServer>();

/** From now on, targets are gateways in front of a second gateway, connected by this protocol. */
export function speakThroughSecondGateway(protocol: UpstreamName = 'chat'): void {
  behind = protocol;
}

/** The protocol between the gateway and its upstream; undefined: its own models, in the client's protocol. */
export function upstreamProtocol(): UpstreamName | undefined {
  return behind;
}

/** Starts the target of a suite; `endTarget` ends it. Both kinds list `sim/large` and `sim/small:free`. */
export async function startTarget(): Promise<Gateway> {
  if (behind === undefined) return startGateway({ config: builtIn });
  const inner = await startGateway({ config: `${builtIn}retries: 0\n`, balance: '100' });
  const server = behind === 'gemini' ? await GeminiServer.start(inner) : undefined;
  const gateway = await startGateway({
    config: frontConfig(server?.baseUrl ?? inner.url, behind),
    environment: { INNER_KEY: server === undefined ? inner.apiKey : geminiKey },
  });
  innerGateways.set(gateway, inner);
  if (server !== undefined) servers.set(gateway, server);
  return gateway;
}

/** Ends it and what is behind it; both must have settled everything. */
export async function endTarget(gateway: Gateway): Promise<void> {
  await endGateway(gateway);
  const inner = innerGateways.get(gateway);
  if (inner === undefined) return;
  // The inner gateway has answered: the front did not answer everything itself.
  expect((await inner.account.listActivity({ limit: 1 })).records).toHaveLength(1);
  await servers.get(gateway)?.stop();
  await endGateway(inner);
}

function frontConfig(url: string, protocol: UpstreamName): string {
  const address = protocol === 'chat' || protocol === 'responses' ? `${url}/v1` : url;
  const [large, small] =
    protocol === 'gemini' ? ['gemini-2.5-flash', 'gemini-2.5-flash-lite'] : ['sim/large', 'sim/small'];
  const features = `
    owned_by: tollgate-simulator
    created: 1790000000
    context_length: 128000
    endpoints: [/v1/chat/completions, /v1/responses, /v1/messages]`;
  return `
keep_alive: 50ms
retries: 0
simulator: { enabled: false }
providers:
  inner: { protocol: ${protocol}, base_url: "${address}", api_key: "\${INNER_KEY}" }
models:
  - id: sim/large${features}
    max_output_tokens: 16384
    capabilities: { vision: true, function_call: true, reasoning: true, service_tiers: [flex, priority] }
    pricing: { input: 1, output: 4, caching: { read: 0.1, write_5m: 1.25, write_1h: 2 } }
    routes: [{ provider: inner, model: ${large} }]
  - id: sim/small:free${features}
    max_output_tokens: 8192
    routes: [{ provider: inner, model: ${small} }]
`;
}
