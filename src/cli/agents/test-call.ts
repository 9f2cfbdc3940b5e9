import type { Access } from './access.ts';
import type { ClientProgram } from './clients.ts';

/** The result of a test call. */
export interface TestCall {
  readonly isGood: boolean;
  /** The question and the answer, or the error, for people. */
  readonly line: string;
}

const timeoutMs = 120_000;
const tokensMax = 64;
const question = 'Say hello.';

interface TestRequest {
  readonly path: string;
  readonly body: object;
  /** Returns the text of an answer. */
  readonly read: (answer: Answer) => string | undefined;
}

/** The members of answers that are read here, of all four interfaces. */
interface Answer {
  readonly choices?: readonly { readonly message?: { readonly content?: string | null } }[];
  readonly content?: readonly { readonly text?: string }[];
  readonly output?: readonly { readonly content?: readonly { readonly text?: string }[] }[];
  readonly candidates?: readonly { readonly content?: { readonly parts?: readonly { readonly text?: string }[] } }[];
  readonly error?: { readonly message?: string };
}

const testRequests: Readonly<Record<ClientProgram['uses'], (model: string) => TestRequest>> = {
  chat: model => ({
    path: '/v1/chat/completions',
    body: { model, max_tokens: tokensMax, messages: [{ role: 'user', content: question }] },
    read: answer => answer.choices?.[0]?.message?.content ?? undefined,
  }),
  messages: model => ({
    path: '/v1/messages',
    body: { model, max_tokens: tokensMax, messages: [{ role: 'user', content: question }] },
    read: answer => answer.content?.find(({ text }) => text !== undefined)?.text,
  }),
  gemini: model => ({
    path: `/v1beta/models/${model}:generateContent`,
    body: { contents: [{ parts: [{ text: question }] }], generationConfig: { maxOutputTokens: tokensMax } },
    read: answer => answer.candidates?.[0]?.content?.parts?.find(({ text }) => text !== undefined)?.text,
  }),
  responses: model => ({
    path: '/v1/responses',
    body: { model, max_output_tokens: tokensMax, input: question, store: false },
    read: answer => answer.output?.flatMap(({ content = [] }) => content).find(({ text }) => text !== undefined)?.text,
  }),
};

/** Calls the model once, through the interface that the client uses. Never rejects. */
export async function makeTestCall({ url, key, model }: Access, uses: ClientProgram['uses']): Promise<TestCall> {
  const { path, body, read } = testRequests[uses](model);
  const what = `Test call: POST ${url}${path} with ${model}`;
  try {
    const response = await fetch(url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(timeoutMs),
    });
    // If another server answers at the address, the members that are read are absent.
    const answer = (await response.json()) as Answer;
    if (!response.ok) {
      return { isGood: false, line: `${what}: ${response.status}, ${answer.error?.message ?? 'without a message'}` };
    }
    const shown = (read(answer) ?? '').replace(/\s+/g, ' ').trim().slice(0, 80);
    const cost = response.headers.get('x-tollgate-cost');
    return { isGood: true, line: `${what}: 200, "${shown}"${cost === null ? '' : `, $${cost}`}` };
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    return { isGood: false, line: `${what}: no answer, ${cause instanceof Error ? cause.message : String(cause)}` };
  }
}
