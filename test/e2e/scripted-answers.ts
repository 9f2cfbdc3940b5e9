/** Writes an answer (text, calls, a finish reason) as upstreams of each protocol do, streamed and whole. */
import type { TextProtocol } from '../upstreams/text-protocol.ts';
import { dataFrame, type Json, type Scripted, typedFrame } from './scripted-upstream.ts';

/** A call; its arguments may be cut. */
export interface ScriptedCall {
  readonly name: string;
  readonly arguments: string;
}

/** The answer to write. */
export interface Answer {
  readonly text?: string;
  readonly calls?: readonly ScriptedCall[];
  /** The finish reason, in Chat's words. */
  readonly finish: 'stop' | 'length' | 'tool_calls';
  /** If true, the calls come after the finish reason `stop`, and no further finish reason follows. */
  readonly late?: boolean;
}

const said = ({ text = '' }: Answer): string => text;
const readCalls = ({ calls = [] }: Answer): readonly ScriptedCall[] => calls;

function chat(answer: Answer): Scripted {
  const head = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' };
  const chunk = (delta: Json, finish_reason: string | null = null): string =>
    dataFrame({ ...head, choices: [{ index: 0, delta, finish_reason }] });
  const texts = said(answer) === '' ? [] : [chunk({ content: said(answer) })];
  const calls = readCalls(answer).map(({ name, arguments: args }, index) => ({
    index,
    id: `call_${index}`,
    type: 'function',
    function: { name, arguments: args },
  }));
  const called = calls.map(call => chunk({ tool_calls: [call] }));
  const usage = { prompt_tokens: 7, completion_tokens: 9, total_tokens: 16 };
  const end = [dataFrame({ ...head, choices: [], usage }), 'data: [DONE]\n\n'];
  const finish = chunk({}, answer.late === true ? 'stop' : answer.finish);
  const message = {
    role: 'assistant',
    content: said(answer) || null,
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
  return {
    frames: answer.late === true ? [...texts, finish, ...called, ...end] : [...texts, ...called, finish, ...end],
    whole: {
      ...head,
      object: 'chat.completion',
      choices: [{ index: 0, message, finish_reason: answer.finish }],
      usage,
    },
  };
}

function responses(answer: Answer): Scripted {
  const message = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    status: 'completed',
    content: [{ type: 'output_text', text: said(answer), annotations: [] }],
  };
  const calls = readCalls(answer).map(({ name, arguments: args }, index) => ({
    id: `fc_${index}`,
    type: 'function_call',
    status: 'completed',
    call_id: `call_${index}`,
    name,
    arguments: args,
  }));
  const output: Json[] = [...(said(answer) === '' ? [] : [message]), ...calls];
  const isCut = answer.finish === 'length';
  const response = {
    id: 'resp_1',
    object: 'response',
    created_at: 1,
    status: isCut ? 'incomplete' : 'completed',
    incomplete_details: isCut ? { reason: 'max_output_tokens' } : null,
    model: 'm',
    output,
    usage: { input_tokens: 7, output_tokens: 9, total_tokens: 16 },
  };
  const items = output.flatMap((item, index) => [
    typedFrame('response.output_item.added', {
      output_index: index,
      item: { ...item, status: 'in_progress', ...('arguments' in item ? { arguments: '' } : { content: [] }) },
    }),
    'arguments' in item
      ? typedFrame('response.function_call_arguments.delta', {
          item_id: item['id'],
          output_index: index,
          delta: item['arguments'],
        })
      : typedFrame('response.output_text.delta', {
          item_id: item['id'],
          output_index: index,
          content_index: 0,
          delta: said(answer),
        }),
    typedFrame('response.output_item.done', { output_index: index, item }),
  ]);
  const begun = typedFrame('response.created', { response: { ...response, status: 'in_progress', output: [] } });
  return { frames: [begun, ...items, typedFrame(`response.${response.status}`, { response })], whole: response };
}

function messages(answer: Answer): Scripted {
  const texts = said(answer) === '' ? [] : [{ type: 'text', text: said(answer) }];
  const calls = readCalls(answer);
  const stop = { stop: 'end_turn', length: 'max_tokens', tool_calls: 'tool_use' }[answer.finish];
  const usage = { input_tokens: 7, output_tokens: 9 };
  const head = { id: 'msg_1', type: 'message', role: 'assistant', model: 'm' };
  const textFrames = texts.flatMap((block, index) => [
    typedFrame('content_block_start', { index, content_block: { ...block, text: '' } }),
    typedFrame('content_block_delta', { index, delta: { type: 'text_delta', text: block.text } }),
    typedFrame('content_block_stop', { index }),
  ]);
  const callFrames = calls.flatMap(({ name, arguments: args }, place) => {
    const index = texts.length + place;
    return [
      typedFrame('content_block_start', {
        index,
        content_block: { type: 'tool_use', id: `toolu_${place}`, name, input: {} },
      }),
      typedFrame('content_block_delta', { index, delta: { type: 'input_json_delta', partial_json: args } }),
      typedFrame('content_block_stop', { index }),
    ];
  });
  const finish = (stop_reason: string): string =>
    typedFrame('message_delta', { delta: { stop_reason, stop_sequence: null }, usage });
  const middle =
    answer.late === true
      ? [...textFrames, finish('end_turn'), ...callFrames]
      : [...textFrames, ...callFrames, finish(stop)];
  const blocks = calls.map(({ name, arguments: args }, place) => ({
    type: 'tool_use',
    id: `toolu_${place}`,
    name,
    // A server can't parse the input of a cut call, so the input is empty.
    input: isJson(args) ? JSON.parse(args) : {},
  }));
  return {
    frames: [
      typedFrame('message_start', { message: { ...head, content: [], usage } }),
      ...middle,
      typedFrame('message_stop', {}),
    ],
    whole: { ...head, content: [...texts, ...blocks], stop_reason: stop, stop_sequence: null, usage },
  };
}

function gemini(answer: Answer): Scripted {
  const texts = said(answer) === '' ? [] : [{ text: said(answer) }];
  const calls = readCalls(answer).map(({ name, arguments: args }) => ({
    functionCall: { name, args: JSON.parse(args) as Json },
  }));
  const frame = (parts: object[], finishReason?: string): Json => ({
    candidates: [
      { index: 0, content: { role: 'model', parts }, ...(finishReason === undefined ? {} : { finishReason }) },
    ],
    responseId: 'r',
    usageMetadata: { promptTokenCount: 7, candidatesTokenCount: 9 },
  });
  const reason = answer.finish === 'length' ? 'MAX_TOKENS' : 'STOP';
  const frames =
    answer.late === true ? [frame(texts, 'STOP'), frame(calls)] : [frame([...texts, ...calls]), frame([], reason)];
  return { frames: frames.map(dataFrame), whole: frame([...texts, ...calls], reason) };
}

function isJson(args: string): boolean {
  try {
    JSON.parse(args);
    return true;
  } catch {
    return false;
  }
}

const writers = { chat, responses, messages, gemini } as const;

/** Writes the answer as an upstream of the protocol does. */
export function write(protocol: TextProtocol, answer: Answer): Scripted {
  return writers[protocol](answer);
}
