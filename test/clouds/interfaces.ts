/** A request with a tool and an image, and its answer, in each client interface. */
import { expect } from 'vitest';
import { post } from '../e2e/chat-client.ts';
import type { Gateway } from '../gateway.ts';
import type { Json } from './cloud-server.ts';

const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
export const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==';
const dataUrl = `data:image/png;base64,${pixel}`;

/** A client interface: its path and a request. */
export interface Interface {
  readonly name: string;
  path(model: string, stream: boolean): string;
  readonly body: Json;
}

export const interfaces: readonly Interface[] = [
  {
    name: 'messages',
    path: () => '/v1/messages',
    body: {
      max_tokens: 2_000,
      thinking: { type: 'enabled', budget_tokens: 1_024 },
      system: [{ type: 'text', text: 'You are brief.', cache_control: { type: 'ephemeral' } }],
      tools: [{ name: 'get_weather', input_schema: parameters }],
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Where?' },
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: pixel } },
          ],
        },
      ],
    },
  },
  {
    name: 'chat',
    path: () => '/v1/chat/completions',
    body: {
      max_completion_tokens: 2_000,
      tools: [{ type: 'function', function: { name: 'get_weather', parameters } }],
      messages: [
        { role: 'system', content: 'You are brief.' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Where?' },
            { type: 'image_url', image_url: { url: dataUrl } },
          ],
        },
      ],
    },
  },
  {
    name: 'responses',
    path: () => '/v1/responses',
    body: {
      max_output_tokens: 2_000,
      instructions: 'You are brief.',
      tools: [{ type: 'function', name: 'get_weather', parameters }],
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'Where?' },
            { type: 'input_image', image_url: dataUrl, detail: 'auto' },
          ],
        },
      ],
    },
  },
  {
    name: 'gemini',
    path: (model, stream) => `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
    body: {
      generationConfig: { maxOutputTokens: 2_000 },
      systemInstruction: { parts: [{ text: 'You are brief.' }] },
      tools: [{ functionDeclarations: [{ name: 'get_weather', parametersJsonSchema: parameters }] }],
      contents: [{ role: 'user', parts: [{ text: 'Where?' }, { inlineData: { mimeType: 'image/png', data: pixel } }] }],
    },
  },
];

/** Sends an interface's request, and returns the status and the text of the answer. */
export async function send(
  gateway: Gateway,
  { path, body, name }: Interface,
  model: string,
  { stream = false, more = {} }: { readonly stream?: boolean; readonly more?: Json } = {},
): Promise<{ readonly status: number; readonly text: string }> {
  const own = name === 'gemini' ? {} : { model, stream };
  const answer = await post(gateway, path(model, stream), { ...own, ...body, ...more });
  return { status: answer.status, text: await answer.text() };
}

/** Checks that an answer has the text and the call of `claude.ts` and `gemini.ts`. */
export function expectAnswer({ status, text }: { readonly status: number; readonly text: string }): void {
  expect([status, text]).toEqual([200, expect.stringMatching(/Let me look\.[^]*get_weather[^]*Paris/)]);
}
