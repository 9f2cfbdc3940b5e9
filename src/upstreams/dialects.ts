import type { Dialect } from '../codecs/dialect.ts';

/** A dialect with the source of each of its members: a page, an issue with the server's own error, or recorded exchanges. */
type Sourced = { readonly [Member in keyof Dialect]-?: readonly [value: NonNullable<Dialect[Member]>, source: string] };
/** The dialect of a server, as data. */
export type DialectRow = Partial<Sourced>;

const visited = '2026-11-28';
const issue = (path: string): string => `github.com/${path}, ${visited}`;
const page = (address: string): string => `${address}, ${visited}`;
/** What the project knew before its sources were written down; docs/providers.md says what was tried. */
const mistralClient = issue('mistralai/client-python/blob/main/src/mistralai/models/chatcompletionrequest.py');
const ollamaSource = issue('ollama/ollama/blob/main/openai/openai.go');
const earlier = 'as listed on 2026-11-21';

/** The dialects of servers, by the names of their presets. docs/providers.md "Differences between providers" is made from it. */
export const dialectRows: Readonly<Record<string, DialectRow>> = {
  openrouter: {
    reasoning: ['reasoning', page('openrouter.ai/docs/use-cases/reasoning-tokens')],
  },
  groq: {
    choices: ['one', page('console.groq.com/docs/openai')],
    reasoning: ['reasoning', issue('tashfeenahmed/freellmapi/issues/1070')],
    refused: [
      ['logprobs', 'top_logprobs', 'logit_bias', 'verbosity', 'prompt_cache_key', 'safety_identifier'],
      page('console.groq.com/docs/api-reference'),
    ],
    refusedInMessages: [['name'], page('console.groq.com/docs/openai')],
  },
  mistral: {
    limitName: ['max_tokens', mistralClient],
    streamOptions: ['refused', mistralClient],
    developer: ['system', mistralClient],
    afterResults: ['Understood.', issue('mistralai/mistral-common/issues/169')],
    callIdLength: [9, issue('anomalyco/opencode/issues/1680')],
    reasoning: ['parts', page('docs.mistral.ai/capabilities/reasoning')],
    renamed: [{ seed: 'random_seed' }, mistralClient],
    refused: [
      ['logprobs', 'top_logprobs', 'logit_bias', 'user', 'safety_identifier', 'service_tier', 'verbosity'],
      mistralClient,
    ],
  },
  deepseek: {
    limitName: ['max_tokens', earlier],
    choices: ['one', earlier],
    developer: ['system', page('api-docs.deepseek.com/api/create-chat-completion')],
    reasoning: ['reasoning_content', page('api-docs.deepseek.com/guides/thinking_mode')],
    thinkingOff: [{ thinking: { type: 'disabled' } }, page('api-docs.deepseek.com/guides/thinking_mode')],
    schemas: ['json_object', page('api-docs.deepseek.com/guides/json_mode')],
  },
  'x-ai': {
    limitIsVisible: [true, 'recorded exchanges of 2025 and 2026: usage above the limit by the reasoning tokens'],
  },
  together: { limitName: ['max_tokens', earlier] },
  fireworks: { limitName: ['max_tokens', earlier] },
  ollama: {
    limitName: ['max_tokens', ollamaSource],
    choices: ['one', ollamaSource],
    reasoning: ['reasoning', ollamaSource],
  },
  vllm: { runningCounts: ['usage', earlier] },
  'llama-cpp': {
    limitName: ['max_tokens', earlier],
    choices: ['one', earlier],
    runningCounts: ['timings', earlier],
    counting: ['template', earlier],
  },
  'lm-studio': { limitName: ['max_tokens', earlier], choices: ['one', earlier] },
};

const standard: Dialect = {};
const dialects = new Map(Object.entries(dialectRows).map(([name, row]) => [name, withoutSources(row)]));

/** Returns the dialect of a preset's server; the protocol itself for other names. */
export function findDialect(name: string | undefined): Dialect {
  return (name === undefined ? undefined : dialects.get(name)) ?? standard;
}

function withoutSources(row: DialectRow): Dialect {
  return Object.fromEntries(Object.entries(row).map(([member, [value]]) => [member, value]));
}
