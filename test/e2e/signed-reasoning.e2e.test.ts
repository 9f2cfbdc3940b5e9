/** Content that an upstream signed is sent back to it unchanged, with its text and kind, through clients of every interface, streamed and not (docs/interfaces/README.md "Reasoning and signatures"). */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { basePaths, type TextProtocol } from '../upstreams/text-protocol.ts';
import {
  askFor,
  dataFrame,
  interfaces,
  type Json,
  type Scripted,
  ScriptedUpstream,
  typedFrame,
} from './scripted-upstream.ts';

const list = (value: unknown): Json[] => (Array.isArray(value) ? (value as Json[]) : []);
const object = (value: unknown): Json => (value ?? {}) as Json;
const text = (value: unknown): string => (typeof value === 'string' ? value : '');

const args = '{"city":"Paris"}';
const usage = { input_tokens: 7, output_tokens: 9 };

/** Reasoning as an upstream of each protocol signs it, and the items that the next request must contain. */
const signed: Readonly<Record<TextProtocol, { answer: Scripted; wanted: Json[]; sent(body: Json): unknown[] }>> = {
  messages: (() => {
    const thinking = { type: 'thinking', thinking: 'Hm,\n\nthe wéather.', signature: 'SIG+/=' };
    const redacted = { type: 'redacted_thinking', data: 'HIDDEN' };
    const head = { id: 'msg_1', type: 'message', role: 'assistant', model: 'm' };
    const call = { type: 'tool_use', id: 'toolu_1', name: 'f', input: {} };
    const stop = { stop_reason: 'tool_use', stop_sequence: null };
    const at = (index: number, content_block: Json, ...deltas: Json[]): string[] => [
      typedFrame('content_block_start', { index, content_block }),
      ...deltas.map(delta => typedFrame('content_block_delta', { index, delta })),
      typedFrame('content_block_stop', { index }),
    ];
    return {
      answer: {
        frames: [
          typedFrame('message_start', { message: { ...head, content: [], usage } }),
          ...at(
            0,
            { ...thinking, thinking: '', signature: '' },
            { type: 'thinking_delta', thinking: 'Hm,\n\n' },
            { type: 'thinking_delta', thinking: 'the wéather.' },
            { type: 'signature_delta', signature: 'SIG+/=' },
          ),
          ...at(1, redacted),
          ...at(2, call, { type: 'input_json_delta', partial_json: args }),
          typedFrame('message_delta', { delta: stop, usage }),
          typedFrame('message_stop', {}),
        ],
        whole: { ...head, content: [thinking, redacted, { ...call, input: JSON.parse(args) }], ...stop, usage },
      },
      wanted: [thinking, redacted],
      sent: body =>
        list(body['messages'])
          .flatMap(message => list(message['content']))
          .filter(({ type }) => type === 'thinking' || type === 'redacted_thinking'),
    };
  })(),
  responses: (() => {
    const summary = ['First.', 'Then.'].map(text => ({ type: 'summary_text', text }));
    const reasoning = { id: 'rs_1', type: 'reasoning', summary, encrypted_content: 'ENC' };
    const call = { id: 'fc_1', type: 'function_call', call_id: 'call_1', name: 'f', arguments: args };
    const response = { id: 'resp_1', object: 'response', status: 'completed', output: [reasoning, call], usage };
    const done = [reasoning, call].map((item, output_index) =>
      typedFrame('response.output_item.done', { output_index, item }),
    );
    return {
      answer: { frames: [...done, typedFrame('response.completed', { response })], whole: response },
      wanted: [reasoning],
      sent: body => list(body['input']).filter(({ type }) => type === 'reasoning'),
    };
  })(),
  gemini: (() => {
    const thought = { text: 'I think.', thought: true, thoughtSignature: 'TS' };
    const call = { functionCall: { name: 'f', args: JSON.parse(args) as Json }, thoughtSignature: 'CS' };
    const frame = { candidates: [{ content: { role: 'model', parts: [thought, call] }, finishReason: 'STOP' }] };
    return {
      answer: { frames: [dataFrame(frame)], whole: frame },
      wanted: [thought, call],
      sent: body =>
        list(body['contents'])
          .flatMap(({ parts }) => list(parts))
          .filter(part => part['thoughtSignature'] !== undefined),
    };
  })(),
  chat: (() => {
    const details = [
      { type: 'reasoning.text', text: 'Hm.', signature: 'CSIG', format: 'x-v1', index: 0 },
      { type: 'reasoning.encrypted', data: 'CENC', index: 1 },
    ];
    const call = { index: 0, id: 'call_1', type: 'function', function: { name: 'f', arguments: args } };
    const message = { role: 'assistant', content: null, reasoning_details: details, tool_calls: [call] };
    const whole = { id: 'c', created: 1, model: 'm', choices: [{ index: 0, message, finish_reason: 'tool_calls' }] };
    const chunk = { ...whole, choices: [{ index: 0, delta: message, finish_reason: 'tool_calls' }] };
    return {
      answer: { frames: [dataFrame(chunk), 'data: [DONE]\n\n'], whole },
      wanted: details,
      sent: body => list(body['messages']).flatMap(message => list(message['reasoning_details'])),
    };
  })(),
};

/** The next request of a client: what it received, and the result of the call. */
const continued: Readonly<Record<string, (said: Json | readonly Json[]) => Json>> = {
  Chat: said => {
    const message = Array.isArray(said)
      ? chatMessage(said as Json[])
      : object(list((said as Json)['choices'])[0]?.['message']);
    const id = list(message['tool_calls'])[0]?.['id'];
    const result = { role: 'tool', tool_call_id: id, content: 'sunny' };
    return { messages: [{ role: 'user', content: 'signed' }, message, result] };
  },
  Responses: said => {
    const response = Array.isArray(said) ? object((said.at(-1) as Json)['response']) : (said as Json);
    const output = list(response['output']);
    const result = { type: 'function_call_output', call_id: output.at(-1)?.['call_id'], output: 'sunny' };
    return { input: [{ role: 'user', content: 'signed' }, ...output, result] };
  },
  Messages: said => {
    const content = Array.isArray(said) ? readBlocks(said as Json[]) : list((said as Json)['content']);
    const result = { type: 'tool_result', tool_use_id: content.at(-1)?.['id'], content: 'sunny' };
    return {
      messages: [
        { role: 'user', content: 'signed' },
        { role: 'assistant', content },
        { role: 'user', content: [result] },
      ],
    };
  },
  Gemini: said => {
    const chunks = Array.isArray(said) ? (said as Json[]) : [said as Json];
    const candidates = chunks.flatMap(chunk => list(chunk['candidates']));
    const parts = candidates.flatMap(({ content }) => list(object(content)['parts']));
    const { id, name } = object(parts.find(({ functionCall }) => functionCall !== undefined)?.['functionCall']);
    const functionResponse = { ...(id === undefined ? {} : { id }), name, response: { output: 'sunny' } };
    return {
      contents: [
        { role: 'user', parts: [{ text: 'signed' }] },
        { role: 'model', parts },
        { role: 'user', parts: [{ functionResponse }] },
      ],
    };
  },
};

/** Assembles a message like Chat clients: entries of reasoning by their index. */
function chatMessage(chunks: readonly Json[]): Json {
  const deltas = chunks.flatMap(chunk => list(chunk['choices'])).map(choice => object(choice['delta']));
  const details: Json[] = [];
  for (const { index, ...entry } of deltas.flatMap(delta => list(delta['reasoning_details']))) {
    const known = details.find(each => each['index'] === index && each['type'] === entry['type']);
    if (known === undefined) details.push({ ...entry, index });
    else {
      for (const name of ['text', 'summary']) {
        if (entry[name] !== undefined) entry[name] = text(known[name]) + text(entry[name]);
      }
      Object.assign(known, entry);
    }
  }
  const calls: Json[] = [];
  for (const { index, ...entry } of deltas.flatMap(delta => list(delta['tool_calls']))) {
    const known = calls[Number(index)];
    const { arguments: more } = object(entry['function']);
    const called = object(known?.['function']);
    if (known === undefined) calls[Number(index)] = structuredClone(entry);
    else called['arguments'] = text(called['arguments']) + text(more);
    if (known !== undefined && entry['extra_content'] !== undefined) known['extra_content'] = entry['extra_content'];
  }
  return { role: 'assistant', content: null, reasoning_details: details, tool_calls: calls };
}

function readBlocks(events: readonly Json[]): Json[] {
  const blocks: Json[] = [];
  for (const event of events) {
    const index = Number(event['index']);
    if (event['type'] === 'content_block_start') blocks[index] = structuredClone(object(event['content_block']));
    const block = blocks[index] ?? {};
    const { thinking, signature, text: said, partial_json: input } = object(event['delta']);
    if (thinking !== undefined) block['thinking'] = text(block['thinking']) + text(thinking);
    if (said !== undefined) block['text'] = text(block['text']) + text(said);
    if (signature !== undefined) block['signature'] = signature;
    if (input !== undefined) block['input'] = JSON.parse(text(input));
  }
  return blocks;
}

const protocols = Object.keys(signed) as TextProtocol[];
const upstreams = new Map<TextProtocol, ScriptedUpstream>();
let gateway: Gateway;
beforeAll(async () => {
  for (const protocol of protocols) {
    upstreams.set(protocol, await ScriptedUpstream.start({ signed: signed[protocol].answer }));
  }
  gateway = await startGateway({
    config: `
simulator: { enabled: false }
providers:
${protocols.map(each => `  ${each}: { protocol: ${each}, base_url: "${upstreams.get(each)?.url}${basePaths[each]}", api_key: k }`).join('\n')}
models:
${protocols.map(each => `  - { id: up/${each}, max_output_tokens: 4096, capabilities: { function_call: true, reasoning: true }, pricing: { input: 1, output: 10 }, routes: [{ provider: ${each}, model: m }] }`).join('\n')}
`,
  });
});
afterAll(async () => {
  await endGateway(gateway);
  for (const upstream of upstreams.values()) upstream.stop();
});

const pairs = protocols.flatMap(protocol =>
  interfaces.flatMap(face => [
    { protocol, face, streamed: true, title: `${face.name} streamed ↔ ${protocol}` },
    { protocol, face, streamed: false, title: `${face.name} whole ↔ ${protocol}` },
  ]),
);

/** The members by which clients ask for all of the reasoning, where it does not come by itself. */
const asked: Readonly<Record<string, Json>> = {
  Responses: { include: ['reasoning.encrypted_content'], store: false },
  Gemini: { generationConfig: { thinkingConfig: { includeThoughts: true } } },
};

test.each(pairs)('$title', async ({ protocol, face, streamed }) => {
  const requested = { face, model: `up/${protocol}`, word: 'signed', streamed };
  const more = asked[face.name] ?? {};
  const first = await askFor(gateway, requested, more);
  expect(first.status).toBe(200);
  const next = await askFor(gateway, requested, { ...more, ...continued[face.name]?.(first.said) });
  expect(next.status).toBe(200);
  const { wanted, sent } = signed[protocol];
  expect(sent(upstreams.get(protocol)?.bodies.at(-1) ?? {})).toMatchObject(wanted);
});
