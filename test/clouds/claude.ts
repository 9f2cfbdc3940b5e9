/** An answer of Claude with signed thinking, a text and a call, with counts of a cached prompt. */
import type { Json } from './cloud-server.ts';

const usage = { input_tokens: 7, cache_read_input_tokens: 100, cache_creation_input_tokens: 20, output_tokens: 30 };
const head = { id: 'msg_bdrk_1', type: 'message', role: 'assistant', model: 'claude-sonnet-4-5' };
export const signature = 'c2lnbmVkIGJ5IHRoZSBjbG91ZA==';

const blocks: readonly Json[] = [
  { type: 'thinking', thinking: 'The tool knows.', signature },
  { type: 'text', text: 'Let me look.' },
  { type: 'tool_use', id: 'toolu_bdrk_1', name: 'get_weather', input: { city: 'Paris' } },
];

export const wholeClaude: Json = { ...head, content: blocks, stop_reason: 'tool_use', stop_sequence: null, usage };

/** The events of the same answer as a stream. */
export const claudeEvents: readonly Json[] = [
  {
    type: 'message_start',
    message: { ...head, content: [], stop_reason: null, stop_sequence: null, usage: { ...usage, output_tokens: 1 } },
  },
  { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'The tool knows.' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature } },
  { type: 'content_block_stop', index: 0 },
  { type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'Let me look.' } },
  { type: 'content_block_stop', index: 1 },
  {
    type: 'content_block_start',
    index: 2,
    content_block: { type: 'tool_use', id: 'toolu_bdrk_1', name: 'get_weather', input: {} },
  },
  { type: 'content_block_delta', index: 2, delta: { type: 'input_json_delta', partial_json: '{"city":"Paris"}' } },
  { type: 'content_block_stop', index: 2 },
  { type: 'message_delta', delta: { stop_reason: 'tool_use', stop_sequence: null }, usage: { output_tokens: 30 } },
  { type: 'message_stop' },
];

/** The stream as server-sent events. */
export const claudeStream = claudeEvents
  .map(event => `event: ${String(event['type'])}\ndata: ${JSON.stringify(event)}\n\n`)
  .join('');
