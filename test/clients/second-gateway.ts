/**
 * The target of the conversation suites: a gateway with built-in models, or a gateway whose upstream is a second one, so that every request goes through a real upstream.
 */
import { describe, expect } from 'vitest';
import { endGateway, type Gateway, makeKey, type NewKey } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { basePaths, type TextProtocol, textProtocols } from '../upstreams/text-protocol.ts';
import { geminiKey, GeminiServer } from './gemini-server.ts';

const builtIn = 'simulator: { tokens_per_second: 0 }\nkeep_alive: 50ms\n';
let behind: TextProtocol | undefined;

/** The access of a target to the second gateway, which all targets of a file share: its key, and the Gemini server in between. */
interface Behind {
  readonly key: NewKey;
  readonly server: GeminiServer | undefined;
}
const targets = new Map<Gateway, Behind>();
let inner: Gateway | undefined;

/** Runs the suite `SUITE.e2e.test.ts` once for each protocol, by default for all, against a gateway that uses it for a second gateway. */
export function describeSecondGateways(suite: string, protocols: readonly TextProtocol[] = textProtocols): void {
  for (const protocol of protocols) {
    describe(`through ${protocol}`, async () => {
      behind = protocol;
      // The question mark makes it another module, so that it runs again.
      await import(`./${suite}.e2e.test.ts?${protocol}`);
      behind = undefined;
    });
  }
}

/** Returns the protocol between the gateway and its upstream; undefined for a gateway with built-in models. Must be called while a suite is loaded. */
export function upstreamProtocol(): TextProtocol | undefined {
  return behind;
}

/** Starts the target of a suite; `endTarget` ends it. Both kinds list `sim/large` and `sim/small:free`. */
export async function startTarget(): Promise<Gateway> {
  if (behind === undefined) return startGateway({ config: builtIn });
  inner ??= await startGateway({ config: `${builtIn}retries: 0\n`, balance: '1000' });
  const key = await makeKey(inner);
  const server = behind === 'gemini' ? await GeminiServer.start({ url: inner.url, apiKey: key.key }) : undefined;
  const gateway = await startGateway({
    config: frontConfig(server?.baseUrl ?? inner.url, behind),
    environment: { INNER_KEY: server === undefined ? key.key : geminiKey },
  });
  targets.set(gateway, { key, server });
  return gateway;
}

/** Ends a target and, after the last one, the second gateway. Expects that everything is settled. */
export async function endTarget(gateway: Gateway): Promise<void> {
  await endGateway(gateway);
  const ended = targets.get(gateway);
  if (ended === undefined || inner === undefined) return;
  targets.delete(gateway);
  // The second gateway must have answered requests, or the first one answered everything itself.
  expect((await inner.account.listActivity({ limit: 1, apiKeyId: ended.key.id })).records).toHaveLength(1);
  await ended.server?.stop();
  if (targets.size > 0) return;
  await endGateway(inner);
  inner = undefined;
}

function frontConfig(url: string, protocol: TextProtocol): string {
  const address = `${url}${basePaths[protocol]}`;
  const [large, small] =
    protocol === 'gemini' ? ['gemini-2.5-flash', 'gemini-2.5-flash-lite'] : ['sim/large', 'sim/small'];
  const features = `
    owned_by: tollgate-simulator
    created: 1790000000
    context_length: 128000
    endpoints: [/v1/chat/completions, /v1/responses, /v1/messages, '/v1beta/models/{model}:generateContent']`;
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
