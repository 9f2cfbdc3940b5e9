/**
 * Signatures of reasoning in loops of tool calls: with every client, each call is sent back to the upstream with its signature, and earlier content is sent again byte for byte (case RE-22 of `test/translation/cases.json`).
 * The server derives a signature from its call, and the tests fail if a client disables the server's check.
 */
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import type { ChatCompletionMessageParam } from 'openai/resources/chat/completions';
import type { ResponseInputItem } from 'openai/resources/responses/responses';
import { beforeEach, describe, expect, test } from 'vitest';
import type { Gateway } from '../gateway.ts';
import { makeSignature } from './gemini-request.ts';
import type { GeminiServer } from './gemini-server.ts';

/** The gateway and the upstream of the conversations. */
export interface SignatureTarget {
  readonly gateway: Pick<Gateway, 'url' | 'apiKey'>;
  /** The server behind the model. Its models require signatures. */
  readonly server: GeminiServer;
  readonly model: string;
}

/** Set when the first test runs. */
let target: SignatureTarget;

/** Continues a conversation with the user's text or with a result for every call of the previous answer. Returns the number of calls in the answer. */
interface Conversation {
  say(text: string): Promise<number>;
  giveResults(): Promise<number>;
}

const name = 'get_weather';
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } as const;
const result = 'Sunny';

function chat(streamed: boolean): Conversation {
  const client = new OpenAI({ baseURL: `${target.gateway.url}/v1`, apiKey: target.gateway.apiKey });
  const messages: ChatCompletionMessageParam[] = [];
  let calls: string[] = [];
  const answer = async (): Promise<number> => {
    const body = {
      model: target.model,
      messages,
      tools: [{ type: 'function' as const, function: { name, parameters } }],
    };
    const { choices } = streamed
      ? await client.chat.completions.stream(body).finalChatCompletion()
      : await client.chat.completions.create(body);
    const message = choices[0]?.message ?? expect.fail('no message');
    messages.push(message);
    calls = (message.tool_calls ?? []).map(({ id }) => id);
    return calls.length;
  };
  return {
    say(text) {
      messages.push({ role: 'user', content: text });
      return answer();
    },
    giveResults() {
      messages.push(...calls.map(id => ({ role: 'tool' as const, tool_call_id: id, content: result })));
      return answer();
    },
  };
}

/** Returns a conversation through Responses. `stored`: the gateway stores it, and may answer in the background; otherwise the client sends all items again. */
function responses(streamed: boolean, stored: boolean, background = false): Conversation {
  const client = new OpenAI({ baseURL: `${target.gateway.url}/v1`, apiKey: target.gateway.apiKey });
  const said: ResponseInputItem[] = [];
  const ended = async (response: OpenAI.Responses.Response): Promise<OpenAI.Responses.Response> => {
    if (response.status === 'completed') return response;
    await new Promise(resolve => {
      setTimeout(resolve, 20);
    });
    return ended(await client.responses.retrieve(response.id));
  };
  let previous: string | undefined;
  let calls: string[] = [];
  const answer = async (...more: ResponseInputItem[]): Promise<number> => {
    const body = {
      model: target.model,
      input: stored ? more : [...said, ...more],
      store: stored,
      ...(stored ? {} : { include: ['reasoning.encrypted_content' as const] }),
      ...(previous === undefined ? {} : { previous_response_id: previous }),
      tools: [{ type: 'function' as const, name, parameters: { ...parameters }, strict: false }],
    };
    const { id, output } = streamed
      ? await client.responses.stream({ ...body, background }).finalResponse()
      : await ended(await client.responses.create({ ...body, background }));
    // Items of an answer can be sent in a request, without the members that only answers have.
    said.push(...more, ...(output as ResponseInputItem[]));
    if (stored) previous = id;
    calls = output.flatMap(item => (item.type === 'function_call' ? [item.call_id] : []));
    return calls.length;
  };
  return {
    say: text => answer({ role: 'user', content: text }),
    giveResults: () =>
      answer(...calls.map(id => ({ type: 'function_call_output' as const, call_id: id, output: result }))),
  };
}

function messages(streamed: boolean): Conversation {
  const client = new Anthropic({ baseURL: target.gateway.url, apiKey: target.gateway.apiKey });
  const said: Anthropic.MessageParam[] = [];
  let calls: string[] = [];
  const answer = async (content: Anthropic.MessageParam['content']): Promise<number> => {
    said.push({ role: 'user', content });
    const tools = [{ name, input_schema: { ...parameters, required: ['city'] } }];
    const body = { model: target.model, max_tokens: 2_000, messages: said, tools };
    const message = streamed ? await client.messages.stream(body).finalMessage() : await client.messages.create(body);
    said.push({ role: 'assistant', content: message.content });
    calls = message.content.flatMap(block => (block.type === 'tool_use' ? [block.id] : []));
    return calls.length;
  };
  return {
    say: answer,
    giveResults: () => answer(calls.map(id => ({ type: 'tool_result' as const, tool_use_id: id, content: result }))),
  };
}

const clients: Readonly<Record<string, (streamed: boolean) => Conversation>> = {
  Chat: chat,
  'Responses, all sent again': streamed => responses(streamed, false),
  'Responses, stored': streamed => responses(streamed, true),
  'Responses, in the background': streamed => responses(streamed, true, true),
  Messages: messages,
};

/** Returns, for every turn of calls in a request, the signature of each call; '-' if it has none. */
function signaturesIn(request: GeminiServer['requests'][number]): string[][] {
  return (request.contents ?? []).flatMap(({ role, parts = [] }) => {
    const calls = parts.filter(part => part.functionCall !== undefined);
    if (role !== 'model' || calls.length === 0) return [];
    return [
      calls.map(({ functionCall, thoughtSignature: signature = '-' }) =>
        signature === makeSignature(functionCall?.name ?? '', functionCall?.args) ? 'own' : signature,
      ),
    ];
  });
}

/** Registers the tests; `find` is called when they run. */
export function signatureTests(find: () => SignatureTarget): void {
  beforeEach(() => {
    target = find();
    target.server.requests.length = 0;
  });

  describe.each(Object.entries(clients))('a client of %s', (_, open) => {
    test.each([false, true])(
      'sends every signature back with its call, turn after turn (stream: %s)',
      async streamed => {
        const conversation = open(streamed);
        expect(await conversation.say('Weather in Paris and Oslo?\n!sim calls=2 say=I will look.')).toBe(2);
        expect(await conversation.giveResults()).toBe(0);
        expect(await conversation.say('And in Rome?\n!sim calls=1')).toBe(1);
        expect(await conversation.giveResults()).toBe(0);
        expect(await conversation.say('Thank you.\n!sim say=You are welcome.')).toBe(0);
        expect(target.server.requests.map(signaturesIn)).toEqual([
          [],
          [['own', '-']],
          [['own', '-']],
          [['own', '-'], ['own']],
          [['own', '-'], ['own']],
        ]);
        for (const [index, { contents: before = [], ...rest }] of target.server.requests.slice(0, -1).entries()) {
          const { contents = [], ...next } = target.server.requests[index + 1] ?? {};
          expect(JSON.stringify(contents).startsWith(JSON.stringify(before).slice(0, -1))).toBe(true);
          expect(JSON.stringify(next)).toBe(JSON.stringify(rest));
        }
      },
    );
  });

  test('a Responses client with neither encrypted nor stored reasoning gets an answer, with a warning that names what is lost', async () => {
    const ask = async (input: unknown): Promise<{ warnings: string | null; output: ResponseInputItem[] }> => {
      const response = await fetch(`${target.gateway.url}/v1/responses`, {
        method: 'POST',
        headers: { authorization: `Bearer ${target.gateway.apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          model: target.model,
          input,
          store: false,
          tools: [{ type: 'function', name, parameters }],
        }),
      });
      expect(response.status).toBe(200);
      const { output } = (await response.json()) as { output: ResponseInputItem[] };
      return { warnings: response.headers.get('x-tollgate-warnings'), output };
    };
    const said = { role: 'user', content: 'Weather in Paris?\n!sim calls=1' };
    const first = await ask([said]);
    expect(first.warnings).toBeNull();
    expect(first.output).toMatchObject([{ type: 'reasoning', summary: [] }, { type: 'function_call' }]);
    expect(first.output[0]).not.toHaveProperty('encrypted_content');
    const call = first.output.find(item => item.type === 'function_call');
    const given = { type: 'function_call_output', call_id: call?.call_id, output: result };
    expect((await ask([said, ...first.output, given])).warnings).toMatch(/^dropped=input.reasoning/);
    expect(target.server.requests.map(signaturesIn)).toEqual([[], [['skip_thought_signature_validator']]]);
  });
}
