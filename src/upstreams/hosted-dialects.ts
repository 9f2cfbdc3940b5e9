import type { DialectRow } from './dialects.ts';

const visited = '2026-11-29';
const page = (address: string): string => `${address}, ${visited}`;
const issue = (path: string): string => `github.com/${path}, ${visited}`;
const cerebrasPage = page('inference-docs.cerebras.ai/resources/openai');
const coherePage = page('docs.cohere.com/docs/compatibility-api');
const zaiPage = page('docs.z.ai/guides/capabilities/thinking-mode');
const zaiFormatter = page('java.agentscope.io/v2/en/integration/model/glm');
const kimiFormatter = page('java.agentscope.io/v2/en/integration/model/kimi');
const minimaxPage = page('platform.minimax.io/docs/api-reference/text-openai-api');
const perplexityAlternates = issue('perplexityai/api-discussion/issues/265');
const nimStrict = issue('NVIDIA/garak/issues/748');
const alibabaPage = page('help.aliyun.com/en/model-studio/deep-thinking');

/** The dialects of hosted servers that speak Chat, by the names of their presets. Servers without a row take the protocol as it is, as far as is known. */
export const hostedDialects: Readonly<Record<string, DialectRow>> = {
  cerebras: {
    developer: ['system', cerebrasPage],
    refused: [
      ['frequency_penalty', 'presence_penalty', 'logit_bias', 'parallel_tool_calls', 'service_tier'],
      page('hexdocs.pm/req_llm/cerebras.html'),
    ],
  },
  perplexity: { developer: ['system', perplexityAlternates], choices: ['one', perplexityAlternates] },
  cohere: {
    limitName: ['max_tokens', coherePage],
    developer: ['system', coherePage],
    choices: ['one', coherePage],
    refused: [['logit_bias', 'top_logprobs', 'service_tier', 'parallel_tool_calls'], coherePage],
  },
  zai: {
    limitName: ['max_tokens', zaiFormatter],
    developer: ['system', zaiFormatter],
    choices: ['one', zaiFormatter],
    reasoning: ['reasoning_content', zaiPage],
    thinkingOff: [{ thinking: { type: 'disabled' } }, zaiPage],
    refused: [['frequency_penalty', 'presence_penalty'], zaiFormatter],
    refusedInMessages: [['name'], zaiFormatter],
  },
  moonshotai: {
    limitName: ['max_completion_tokens', kimiFormatter],
    developer: ['system', kimiFormatter],
    choices: ['one', kimiFormatter],
    reasoning: ['reasoning_content', kimiFormatter],
    thinkingOff: [{ thinking: { type: 'disabled' } }, kimiFormatter],
  },
  minimax: {
    developer: ['system', minimaxPage],
    choices: ['one', minimaxPage],
    thinkingOff: [{ thinking: { type: 'disabled' } }, page('java.agentscope.io/v2/en/integration/model/minimax')],
    refused: [['logit_bias'], minimaxPage],
  },
  alibaba: {
    limitName: ['max_tokens', alibabaPage],
    developer: ['system', alibabaPage],
    reasoning: ['reasoning_content', alibabaPage],
  },
  nvidia: {
    limitName: ['max_tokens', nimStrict],
    streamOptions: ['refused', issue('HKUDS/DeepTutor/pull/420')],
    choices: ['one', nimStrict],
    developer: ['system', nimStrict],
  },
  databricks: { streamOptions: ['refused', issue('anomalyco/opencode/issues/4698')] },
};
