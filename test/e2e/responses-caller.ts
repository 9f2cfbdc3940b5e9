/** A client of the Responses interface, reduced to what the tests of upstreams check. */
import type { Gateway } from '../gateway.ts';

/** The outcome of a request. */
export interface ResponsesSeen {
  readonly status: number;
  readonly headers: Headers;
  /** The error of the envelope or of the stream's error event. */
  readonly error?: Readonly<Record<string, unknown>>;
  readonly text: string;
  readonly arguments: string;
  /** Why the response ended, as Chat's finish reason. */
  readonly finish: string | undefined;
  /** Violations of the rules of the stream that clients rely on. */
  readonly wrong: readonly string[];
  readonly ms: number;
}

type Json = Readonly<Record<string, unknown>>;

interface Item {
  readonly type: string;
  readonly arguments?: string;
  readonly content?: readonly { readonly text?: string }[];
}

interface Resource {
  readonly status: string;
  readonly output: readonly Item[];
}

/** Returns why a response ended, as Chat's finish reason; undefined if it has not. */
function readFinish({ status, output }: Resource): string | undefined {
  if (status !== 'completed') return undefined;
  return output.some(({ type }) => type === 'function_call') ? 'tool_calls' : 'stop';
}

/** Sends a request, streamed or not, and reads the answer to its end. */
export async function askResponses(gateway: Gateway, body: Json): Promise<ResponsesSeen> {
  const began = performance.now();
  const response = await fetch(`${gateway.url}/v1/responses`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${gateway.apiKey}` },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  const { status, headers } = response;
  const known = { status, headers, ms: performance.now() - began };
  if (headers.get('content-type')?.startsWith('text/event-stream') === true) return { ...known, ...readStream(text) };
  const answer = JSON.parse(text) as Resource & { error: Json | null };
  const empty = { text: '', arguments: '', finish: undefined, wrong: [] };
  if (answer.error !== null) return { ...known, ...empty, error: answer.error };
  return { ...known, ...readTexts(answer), finish: readFinish(answer), wrong: [] };
}

function readTexts({ output }: Resource): { text: string; arguments: string } {
  const said = output.flatMap(({ content }) => (content ?? []).map(part => part.text ?? ''));
  return { text: said.join(''), arguments: output.map(item => item.arguments ?? '').join('') };
}

interface StreamEvent {
  readonly type: string;
  readonly sequence_number: number;
  readonly delta?: string;
  readonly error?: Json;
  readonly response?: Resource;
}

function readStream(text: string): Omit<ResponsesSeen, 'status' | 'headers' | 'ms'> {
  const frames = text.split('\n\n').filter(frame => frame.replaceAll(/^:.*\n/gm, '') !== '');
  const wrong: string[] = [];
  if (frames.at(-1) !== 'data: [DONE]') wrong.push('no [DONE]');
  const events = frames.slice(0, -1).map(frame => JSON.parse(frame.slice(frame.indexOf('data: ') + 6)) as StreamEvent);
  if (events.some((event, index) => event.sequence_number !== index)) wrong.push('sequence_number');
  const said = (type: string): string =>
    events
      .filter(event => event.type === type)
      .map(({ delta }) => delta ?? '')
      .join('');
  const texts = {
    text: said('response.output_text.delta'),
    arguments: said('response.function_call_arguments.delta'),
  };
  const last = events.at(-1);
  const final = last?.response;
  if (final === undefined) return { ...texts, finish: undefined, wrong: [...wrong, 'no last resource'] };
  const whole = readTexts(final);
  if (whole.text !== texts.text || whole.arguments !== texts.arguments) wrong.push('another last resource');
  const error = events.find(({ type }) => type === 'error')?.error;
  if (error === undefined) return { ...texts, finish: readFinish(final), wrong };
  if (last?.type !== 'response.failed' || events.at(-2)?.type !== 'error') wrong.push('no response.failed at the end');
  return { ...texts, finish: readFinish(final), wrong, error };
}
