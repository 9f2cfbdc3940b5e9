/** A client of the Messages interface, reduced to what the tests of upstreams check. */
import type { Gateway } from '../gateway.ts';

/** The outcome of a request. */
export interface MessagesOutcome {
  readonly status: number;
  readonly headers: Headers;
  /** The error of an error answer, or of the stream's `error` event; absent: none. */
  readonly error?: Readonly<Record<string, unknown>>;
  readonly text: string;
  /** The arguments of all calls as JSON texts. */
  readonly arguments: string;
  /** The stop reason; `tool_use` is given as Chat's `tool_calls`, all others unchanged. */
  readonly finish: string | undefined;
  /** Whether `message_stop` came, and nothing after it. If the answer is not streamed: whether it is not an error. */
  readonly done: boolean;
  readonly ms: number;
}

type Json = Readonly<Record<string, unknown>>;

interface Block {
  readonly type: string;
  readonly text?: string;
  readonly input?: unknown;
}

const toFinish = (reason: unknown): string | undefined =>
  reason === 'tool_use' ? 'tool_calls' : (reason as string | undefined);

/** Sends a request, streamed or not, and reads the answer to its end. */
export async function askMessages(gateway: Gateway, body: Json): Promise<MessagesOutcome> {
  const began = performance.now();
  const response = await fetch(`${gateway.url}/v1/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': gateway.apiKey },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  const { status, headers } = response;
  const known = { status, headers, ms: performance.now() - began };
  if (headers.get('content-type')?.startsWith('text/event-stream') === true) return { ...known, ...readStream(text) };
  const answer = JSON.parse(text) as { error?: Json; content?: Block[]; stop_reason?: string };
  const empty = { text: '', arguments: '', finish: undefined, done: false };
  if (answer.error !== undefined) return { ...known, ...empty, error: answer.error };
  const blocks = answer.content ?? [];
  const inputs = blocks.filter(({ type }) => type === 'tool_use').map(({ input }) => JSON.stringify(input));
  const said = blocks.map(block => block.text ?? '').join('');
  return { ...known, text: said, arguments: inputs.join(), finish: toFinish(answer.stop_reason), done: true };
}

function readStream(text: string): Omit<MessagesOutcome, 'status' | 'headers' | 'ms'> {
  const seen = { text: '', arguments: '', finish: undefined as string | undefined, done: false };
  let error: Json | undefined;
  for (const line of text.split('\n').filter(each => each.startsWith('data: '))) {
    const event = JSON.parse(line.slice('data: '.length)) as {
      type: string;
      delta?: Record<string, string>;
      error?: Json;
    };
    if (event.type === 'ping') continue;
    seen.text += event.delta?.['text'] ?? '';
    seen.arguments += event.delta?.['partial_json'] ?? '';
    if (event.type === 'message_delta') seen.finish = toFinish(event.delta?.['stop_reason']);
    if (event.error !== undefined) ({ error } = event);
    seen.done = event.type === 'message_stop';
  }
  return error === undefined ? seen : { ...seen, error };
}
