/** A provider that fails after its opening frames and before any content (docs/architecture.md "Routing"): the next route answers, for upstreams and clients of every protocol. */
import { afterAll, expect, test } from 'vitest';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { RawUpstream } from '../upstreams/raw-upstream.ts';
import { basePaths } from '../upstreams/text-protocol.ts';
import { ways } from './upstream-callers.ts';
import { answerWith, failWith, wholeAnswer } from './upstream-fault-table.ts';
import { chatWire, geminiWire, messagesWire, responsesWire } from './upstream-wires.ts';

const wires = [chatWire, responsesWire, messagesWire, geminiWire];
const faults = ['reset', 'truncated', 'error event', '429 event', 'garbage'] as const;
const cells = wires.flatMap(wire => faults.map(fault => ({ protocol: wire.protocol, wire, fault })));
const nameModel = (protocol: string, fault: string): string => `${protocol}-${fault.replace(' ', '-')}`;

const behaviours = new Map(
  cells.map(({ protocol, wire, fault }) => [nameModel(protocol, fault), failWith(wire, fault, 'after the role')]),
);
const answers = answerWith(chatWire, 'right');
const upstream = await RawUpstream.start((socket, request) => {
  const name = [...behaviours.keys()].find(
    each => (request.line + request.body).includes(`"${each}"`) || request.line.includes(`/${each}:`),
  );
  return (behaviours.get(name ?? '') ?? answers)(socket, request);
});
const origin = new URL(upstream.baseUrl).origin;
const gateway = await startGateway({
  config: `
simulator: { enabled: false }
retries: 0
providers:
  good: { protocol: chat, base_url: "${origin}/v1", api_key: key }${cells
    .map(
      ({ protocol, fault }) =>
        `\n  ${nameModel(protocol, fault)}: { protocol: ${protocol}, base_url: "${origin}${basePaths[protocol]}", api_key: [first, second] }`,
    )
    .join('')}
models:${cells
    .map(({ protocol, fault }) => nameModel(protocol, fault))
    .map(
      name =>
        `\n  - { id: acme/${name}, endpoints: [/v1/chat/completions, /v1/responses, /v1/messages, '/v1beta/models/{model}:generateContent'], capabilities: { function_call: true }, pricing: { input: 1, output: 10 }, routes: [{ provider: ${name}, model: ${name}, priority: 1 }, { provider: good, model: m, priority: 2 }] }`,
    )
    .join('')}
`,
});
afterAll(async () => {
  await endGateway(gateway);
  await upstream.stop();
});

test.each(cells)('$protocol, $fault', async ({ protocol, fault }) => {
  for (const way of ways.filter(({ streamed }) => streamed)) {
    const seen = await way.ask(gateway, `acme/${nameModel(protocol, fault)}`);
    expect([way.name, seen.end, seen.text, seen.finish, seen.wrong]).toEqual([
      way.name,
      'answer',
      wholeAnswer.text,
      wholeAnswer.finish,
      [],
    ]);
  }
});
