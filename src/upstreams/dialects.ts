import type { Dialect } from '../codecs/dialect.ts';
import { hostedDialects } from './hosted-dialects.ts';

/** A dialect with the source of each of its members: a page, an issue with the server's own error, or recorded exchanges. */
type Sourced = { readonly [Member in keyof Dialect]-?: readonly [value: NonNullable<Dialect[Member]>, source: string] };
/** The dialect of a server, as data. */
export type DialectRow = Partial<Sourced>;

const visited = '2026-11-28';
const issue = (path: string): string => `github.com/${path}, ${visited}`;
const page = (address: string): string => `${address}, ${visited}`;
/** The client's own type of a request; a member that it lacks is refused: `extra_forbidden` (github.com/mistralai/platform-docs-public/issues/7). */
const mistralClient = issue('mistralai/client-python/blob/main/src/mistralai/models/chatcompletionrequest.py');
const ollamaSource = issue('ollama/ollama/blob/main/openai/openai.go');
const groqPage = page('console.groq.com/docs/openai');
const grokLimit =
  'recorded exchanges of 2025 and 2026: 17 answers whose reasoning is above the limit, and the rest not';
/** The source of facts that were known before sources were written down; docs/providers.md says what was tried. */
const earlier = 'as listed on 2026-11-21';

/** The dialects of servers, by the names of their presets. docs/providers.md "Differences between providers" is made from it. */
export const dialectRows: Readonly<Record<string, DialectRow>> = {
  openrouter: {
    visibleLimit: [['grok'], grokLimit],
    reasoning: ['reasoning', 'recorded exchanges: histories with it are taken'],
  },
  groq: {
    choices: ['one', groqPage],
    reasoning: [
      'reasoning',
      issue('groq/groq-python/blob/main/src/groq/types/chat/chat_completion_assistant_message_param.py'),
    ],
    refused: [['logprobs', 'top_logprobs', 'logit_bias'], groqPage],
    refusedInMessages: [['name'], groqPage],
  },
  mistral: {
    limitName: ['max_tokens', mistralClient],
    streamOptions: ['refused', mistralClient],
    developer: ['system', mistralClient],
    afterResults: ['Understood.', issue('mistralai/mistral-common/issues/169')],
    callIdLength: [9, issue('anomalyco/opencode/issues/1680')],
    reasoning: ['parts', `recorded exchanges; refused by name: ${issue('charmbracelet/crush/issues/1590')}`],
    renamed: [{ seed: 'random_seed' }, mistralClient],
    refused: [
      ['logprobs', 'top_logprobs', 'logit_bias', 'user', 'safety_identifier', 'service_tier', 'verbosity'],
      mistralClient,
    ],
  },
  deepseek: {
    limitName: ['max_tokens', earlier],
    choices: ['one', earlier],
    developer: ['system', issue('earendil-works/pi/issues/1048')],
    reasoning: ['reasoning_content', page('api-docs.deepseek.com/guides/thinking_mode')],
    thinkingOff: [{ thinking: { type: 'disabled' } }, page('api-docs.deepseek.com/guides/thinking_mode')],
    schemas: ['json_object', issue('llm-exe/llm-exe/issues/662')],
  },
  'x-ai': { visibleLimit: [['grok'], grokLimit] },
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
  ...hostedDialects,
  'lm-studio': { limitName: ['max_tokens', earlier], choices: ['one', earlier] },
};

/** Of a server that is not known: xAI's models are the same behind any. */
const standard: Dialect = { visibleLimit: ['grok'] };
const dialects = new Map(Object.entries(dialectRows).map(([name, row]) => [name, withoutSources(row)]));

/** Returns the dialect of a preset's server; the protocol itself for other names. */
export function findDialect(name: string | undefined): Dialect {
  return (name === undefined ? undefined : dialects.get(name)) ?? standard;
}

function withoutSources(row: DialectRow): Dialect {
  return Object.fromEntries(Object.entries(row).map(([member, [value]]) => [member, value]));
}
