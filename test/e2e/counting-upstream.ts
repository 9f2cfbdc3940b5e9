/** An upstream that reports whatever usage a test requests, in the format of the request's protocol. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basePaths, type TextProtocol } from '../upstreams/text-protocol.ts';

/** The tokens that an upstream counted. The buckets do not overlap, except that `output` includes `reasoning`. */
export interface Counted {
  /** Input that was neither read from a cache nor written to one. */
  readonly input: number;
  readonly read: number;
  readonly write5m: number;
  readonly write1h: number;
  readonly output: number;
  /** A part of the output. */
  readonly reasoning: number;
}

/** What the upstream has to report. */
export interface Order {
  readonly usage: Counted;
  /** The tier under its general name; absent: the upstream reports none. */
  readonly tier?: 'default' | 'flex' | 'priority';
}

/** Returns the prompt that requests a report. */
export function orderText(number: number): string {
  return `order ${number}.`;
}

/** A running upstream. */
export interface CountingUpstream {
  /** Returns the base URL for a client of the protocol. */
  baseUrl(protocol: TextProtocol): string;
  stop(): Promise<void>;
}

/** Starts the upstream. The number in a prompt selects one of the `orders`. */
export async function startCountingUpstream(orders: ReadonlyMap<number, Order>): Promise<CountingUpstream> {
  const server = createServer((request, response) => void answer(orders, request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    baseUrl: protocol => `${origin}${basePaths[protocol]}`,
    stop: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function answer(
  orders: ReadonlyMap<number, Order>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  let body = '';
  for await (const chunk of request) body += String(chunk);
  const order = orders.get(Number(/order (\d+)\./.exec(body)?.[1]));
  if (order === undefined) throw new Error(`no order in ${body}`);
  const path = request.url ?? '';
  const report = reports.find(([end]) => path.endsWith(end))?.[1] ?? gemini;
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.end(report(order).join(''));
}

const frame = (data: unknown): string => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;

/** Chat: cached and written tokens are parts of the prompt's, reasoning is a part of the completion. */
function chat({ usage, tier }: Order): string[] {
  const { input, read, write5m, write1h, output, reasoning } = usage;
  const prompt = input + read + write5m + write1h;
  const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm' };
  const choice = (delta: object, finish: string | null = null) => ({
    ...head,
    choices: [{ index: 0, delta, finish_reason: finish }],
  });
  return [
    frame(choice({ role: 'assistant', content: 'Well' })),
    frame(choice({}, 'stop')),
    frame({
      ...head,
      ...(tier === undefined ? {} : { service_tier: tier }),
      choices: [],
      usage: {
        prompt_tokens: prompt,
        completion_tokens: output,
        total_tokens: prompt + output,
        prompt_tokens_details: {
          cached_tokens: read,
          ...(write5m + write1h === 0 ? {} : { cache_write_tokens: write5m + write1h }),
          ...(write1h === 0 ? {} : { cache_write_1h_tokens: write1h }),
        },
        completion_tokens_details: { reasoning_tokens: reasoning },
      },
    }),
    frame('[DONE]'),
  ];
}

/** Anthropic: cached and written tokens are not included in the input; the input is reported first, the output last. */
function messages({ usage, tier }: Order): string[] {
  const { input, read, write5m, write1h, output } = usage;
  const event = (type: string, more: object): string => `event: ${type}\n${frame({ type, ...more })}`;
  const counts = {
    input_tokens: input,
    cache_read_input_tokens: read,
    cache_creation_input_tokens: write5m + write1h,
    cache_creation: { ephemeral_5m_input_tokens: write5m, ephemeral_1h_input_tokens: write1h },
    ...(tier === undefined ? {} : { service_tier: tier === 'default' ? 'standard' : tier }),
  };
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', content: [], stop_reason: null };
  return [
    event('message_start', { message: { ...message, usage: { ...counts, output_tokens: 1 } } }),
    event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
    event('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'Well' } }),
    event('content_block_stop', { index: 0 }),
    event('message_delta', {
      delta: { stop_reason: 'end_turn', stop_sequence: null },
      usage: { output_tokens: output },
    }),
    event('message_stop', {}),
  ];
}

/** Google: cached tokens are part of the prompt's, reasoning is not included in the candidates; writes to a cache are not reported. */
function gemini({ usage, tier }: Order): string[] {
  const { input, read, output, reasoning } = usage;
  return [
    frame({
      candidates: [{ index: 0, content: { role: 'model', parts: [{ text: 'Well' }] }, finishReason: 'STOP' }],
      modelVersion: 'm',
      responseId: 'r',
      usageMetadata: {
        promptTokenCount: input + read,
        cachedContentTokenCount: read,
        candidatesTokenCount: output - reasoning,
        thoughtsTokenCount: reasoning,
        totalTokenCount: input + read + output,
        ...(tier === undefined ? {} : { serviceTier: tier === 'default' ? 'standard' : tier }),
      },
    }),
  ];
}

/** Responses: cached tokens are a part of the input, reasoning a part of the output; writes are as in Chat. */
function responses({ usage, tier }: Order): string[] {
  const { input, read, write5m, write1h, output, reasoning } = usage;
  const all = input + read + write5m + write1h;
  const head = { id: 'resp_1', object: 'response', created_at: 1, model: 'm', output: [] as object[] };
  const part = { type: 'output_text', text: 'Well', annotations: [] };
  const item = { id: 'msg_1', type: 'message', role: 'assistant', status: 'completed', content: [part] };
  let sequence = 0;
  const event = (type: string, more: object): string => {
    sequence += 1;
    return `event: ${type}\n${frame({ type, sequence_number: sequence - 1, ...more })}`;
  };
  const at = { output_index: 0, item_id: 'msg_1', content_index: 0 };
  return [
    event('response.created', { response: { ...head, status: 'in_progress' } }),
    event('response.output_item.added', { output_index: 0, item: { ...item, status: 'in_progress', content: [] } }),
    event('response.content_part.added', { ...at, part: { ...part, text: '' } }),
    event('response.output_text.delta', { ...at, delta: 'Well' }),
    event('response.output_text.done', { ...at, text: 'Well' }),
    event('response.content_part.done', { ...at, part }),
    event('response.output_item.done', { output_index: 0, item }),
    event('response.completed', {
      response: {
        ...head,
        status: 'completed',
        output: [item],
        ...(tier === undefined ? {} : { service_tier: tier }),
        usage: {
          input_tokens: all,
          input_tokens_details: {
            cached_tokens: read,
            ...(write5m + write1h === 0 ? {} : { cache_write_tokens: write5m + write1h }),
            ...(write1h === 0 ? {} : { cache_write_1h_tokens: write1h }),
          },
          output_tokens: output,
          output_tokens_details: { reasoning_tokens: reasoning },
          total_tokens: all + output,
        },
      },
    }),
  ];
}

const reports: readonly (readonly [end: string, report: (order: Order) => string[]])[] = [
  ['/chat/completions', chat],
  ['/responses', responses],
  ['/messages', messages],
];
