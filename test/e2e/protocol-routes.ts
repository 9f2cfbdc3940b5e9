import { basePaths, type TextProtocol } from '../upstreams/text-protocol.ts';

/** Returns a configuration with one provider per protocol, all at the same server, and for each a model `via/PROTOCOL` with every feature. */
export function configureProtocols(protocols: readonly TextProtocol[], origin: string): string {
  const providers = protocols.map(
    name => `  ${name}: { protocol: ${name}, base_url: "${origin}${basePaths[name]}", api_key: k }\n`,
  );
  const models = protocols.map(
    name => `  - id: via/${name}
    context_length: 200000
    max_output_tokens: 8000
    endpoints: [/v1/chat/completions, /v1/responses, /v1/messages, "/v1beta/models/{model}:generateContent"]
    capabilities: { vision: true, function_call: true, reasoning: true, service_tiers: [] }
    pricing: { input: 1, output: 1 }
    routes: [{ provider: ${name}, model: up-1 }]
`,
  );
  return `providers:\n${providers.join('')}models:\n${models.join('')}`;
}
