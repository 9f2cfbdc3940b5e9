/**
 * Reads a Chat stream as strictly as the strictest official client (docs/interfaces/chat-completions.md "Stream") and assembles the answer. Anything that a client would refuse or lose is an error.
 */
import type { Json, JsonObject } from '../../src/codecs/codec.ts';

/** A choice as a client has assembled it. */
export interface ReadChoice {
  readonly message: JsonObject;
  readonly finish: string;
  readonly logprobs: Json[];
}

/** An answer as a client has assembled it from a stream. */
export interface ReadAnswer {
  readonly id: string;
  readonly chunks: readonly JsonObject[];
  readonly choices: readonly ReadChoice[];
  readonly usage: JsonObject | undefined;
}

interface Call {
  id: string;
  type: string;
  name: string;
  text: string;
}

const refuse = (what: string): never => {
  throw new Error(what);
};

const readText = (value: Json | undefined): string => (typeof value === 'string' ? value : '');

class Choice {
  role = '';
  content = '';
  refusal = '';
  reasoning = '';
  finish: string | undefined;
  readonly annotations: Json[] = [];
  readonly logprobs: Json[] = [];
  readonly calls: Call[] = [];

  add(choice: JsonObject): void {
    if (this.finish !== undefined) refuse('a chunk after the finish');
    const delta = choice['delta'] as JsonObject;
    if (this.role === '' && delta['role'] !== 'assistant') refuse('missing role');
    if (this.role !== '' && 'role' in delta) refuse('role sent twice');
    this.role = 'assistant';
    this.content += readText(delta['content']);
    this.refusal += readText(delta['refusal']);
    this.reasoning += readText(delta['reasoning_content']);
    this.annotations.push(...((delta['annotations'] ?? []) as Json[]));
    const logprobs = choice['logprobs'] as JsonObject | null;
    this.logprobs.push(...((logprobs?.['content'] ?? []) as Json[]));
    for (const call of (delta['tool_calls'] ?? []) as JsonObject[]) this.#call(call);
    if (choice['finish_reason'] !== null) this.finish = choice['finish_reason'] as string;
  }

  #call(delta: JsonObject): void {
    const index = delta['index'];
    if (typeof index !== 'number') throw new Error('a tool delta without index');
    const body = (delta['function'] ?? delta['custom']) as JsonObject;
    const text = body['arguments'] ?? body['input'];
    if (index === this.calls.length) {
      const { id, type } = delta;
      if (typeof id !== 'string' || typeof type !== 'string' || typeof body['name'] !== 'string') {
        throw new Error('a call begins without id, type or name');
      }
      this.calls.push({ id, type, name: body['name'], text: readText(text) });
      return;
    }
    if (index !== this.calls.length - 1) refuse('calls are not one after the other');
    if ('id' in delta || 'type' in delta || 'name' in body) refuse('the id, type or name of a call was sent twice');
    const call = this.calls[index];
    if (call === undefined || typeof text !== 'string') throw new Error('arguments that are not a text');
    call.text += text;
  }

  get message(): JsonObject {
    const calls = this.calls.map(({ id, type, name, text }): JsonObject => {
      if (type === 'custom') return { id, type, custom: { name, input: text } };
      if (text === '') refuse('a call without arguments');
      return { id, type, function: { name, arguments: text } };
    });
    const silent = this.content === '' && (calls.length > 0 || this.refusal !== '');
    return {
      role: this.role,
      content: silent ? null : this.content,
      refusal: this.refusal === '' ? null : this.refusal,
      ...(this.reasoning === '' ? {} : { reasoning_content: this.reasoning }),
      ...(this.annotations.length === 0 ? {} : { annotations: this.annotations }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    };
  }
}

/** Reads the frames of a stream to its `[DONE]`. Throws on what a client would refuse or lose. */
export function readStrictly(frames: readonly string[]): ReadAnswer {
  if (frames.at(-1) !== 'data: [DONE]\n\n') refuse('the stream has no [DONE]');
  const chunks = frames.slice(0, -1).map(frame => JSON.parse(frame.replace(/^data: /, '')) as JsonObject);
  const choices: Choice[] = [];
  let usage: JsonObject | undefined;
  for (const chunk of chunks) {
    for (const member of ['id', 'object', 'created', 'model']) {
      if (chunk[member] !== chunks[0]?.[member]) refuse(`${member} changed`);
    }
    if (chunk['object'] !== 'chat.completion.chunk') refuse('wrong object');
    if (usage !== undefined) refuse('a chunk after the usage');
    if (chunk['usage'] != null) {
      if ((chunk['choices'] as Json[]).length > 0) refuse('usage beside a choice');
      usage = chunk['usage'] as JsonObject;
    }
    for (const choice of chunk['choices'] as JsonObject[]) {
      const index = choice['index'] as number;
      (choices[index] ??= new Choice()).add(choice);
    }
  }
  return {
    id: readText(chunks[0]?.['id']),
    chunks,
    usage,
    choices: choices.map(choice => {
      if (choice.finish === undefined) throw new Error('missing finish_reason');
      return { message: choice.message, finish: choice.finish, logprobs: choice.logprobs };
    }),
  };
}
