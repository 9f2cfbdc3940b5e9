import type { FailureMeaning } from '../generation/failure-meaning.ts';

/** An error that providers report, and what it means although its status would mean something else. */
export interface ProviderError {
  readonly means: FailureMeaning;
  /** The statuses with which it comes; absent: any, but an error of the request only with those that are not `aboutKeys`. */
  readonly statuses?: readonly number[];
  /** Its code, type or reason; absent: any. */
  readonly code?: RegExp;
  /** Its message; absent: any. */
  readonly message?: RegExp;
  /** The text for docs/errors.md: who sends it, and when. */
  readonly sent: string;
  /** Where this was found. `recorded`: among recorded exchanges with the provider. */
  readonly source: string;
}

/** Statuses that are about keys and load, and not about the request, unless a row names them. */
const aboutKeys: ReadonlySet<number> = new Set([401, 403, 408, 429, 503, 529]);

const tooLongWords =
  /context[ _-]?(length|window|size|limit)|maximum (context|prompt|input)|max_model_len|(prompt|input|request) (is |was )?too (long|large)|too many (input )?tokens|total length of all messages is too long|exceeds the maximum number of tokens|exceeds? .{0,40}tokens/i;

const billWords =
  /\b(?:quotas?|billing|billed|credits?|balance|payments?|prepaid|invoices?|subscriptions?|spend(?:ing)?)\b/i;

/** Messages by which servers report that they can't handle the content of a request. */
const contentWords = new RegExp(
  [
    String.raw`(image|audio|video|vision|multi-?modal)s?\b.{0,40}\b(not|n't|un)\s?(be )?(support|allow|accept)`,
    String.raw`(not|n't|un)\s?support(s|ed)?\b.{0,40}\b(image|audio|video|vision|multi-?modal|tools?|thinking|response_format|schema)`,
    String.raw`missing data required for image|mmproj|(failed|unable) to (load|decode|process) (image|audio)`,
    String.raw`jinja|chat template|template (error|rendering)|conversation roles must alternate|raise_exception`,
    String.raw`(json[ _-]?schema|grammar|regex pattern|structured output).{0,60}(fail|invalid|error|unsupported|not supported|unrecognized)`,
    String.raw`(fail\w*|invalid|error|unsupported|unrecognized).{0,60}(json[ _-]?schema|\bschema\b|grammar)`,
    String.raw`does not support (tools|thinking|images|chat)|tools? param requires`,
  ].join('|'),
  'i',
);

/**
 * The errors whose status alone does not say what they mean. The first row that matches applies. Messages about keys and bills are matched at their beginning, because the rest of a message may quote the client's text.
 */
export const providerErrors: readonly ProviderError[] = [
  {
    means: 'billing',
    code: /^(?:insufficient_quota|credit_balance_exhausted|enforced_spend_limit_reached|billing(?:_\w+)?|insufficient_(?:balance|funds|credits?)|quota_exceeded|payment_required)$/i,
    sent: 'OpenAI (429 `insufficient_quota`, `credit_balance_exhausted`), Anthropic (402 `billing_error`, 429 `enforced_spend_limit_reached`): the operator’s account can’t pay',
    source: 'developers.openai.com, error codes; platform.claude.com, errors',
  },
  {
    means: 'quota',
    statuses: [429],
    message: billWords,
    sent: 'Gemini (429 `RESOURCE_EXHAUSTED`, “You exceeded your current quota”, also for a limit per minute)',
    source: 'recorded; ai.google.dev, API errors',
  },
  {
    means: 'billing',
    message:
      /^\W*(?:you(?:r|’ve| have)? (?:exceeded your current quota|credit balance|account (?:is not active|balance)|reached your specified (?:workspace )?api usage limits)|insufficient (?:balance|funds|credits?|quota)|payment required|this request requires more credits)/i,
    sent: 'Anthropic (400 “Your credit balance is too low”, “You have reached your specified API usage limits”), DeepSeek (402 “Insufficient Balance”), OpenRouter (402)',
    source: 'platform.claude.com, errors; api-docs.deepseek.com, error codes; openrouter.ai/docs, errors',
  },
  {
    means: 'billing',
    statuses: [401, 402, 403],
    message: billWords,
    sent: 'xAI (403 about credits) and others: refusals that speak of the operator’s bill',
    source: 'docs.x.ai, debugging',
  },
  {
    means: 'key',
    statuses: [400, 401, 403],
    code: /^API_KEY_(?:INVALID|EXPIRED)$/,
    sent: 'Gemini (400 `API_KEY_INVALID`)',
    source: 'recorded',
  },
  {
    means: 'key',
    statuses: [400, 403, 404],
    message: /^\W*(?:incorrect|invalid|wrong|expired) api[- ]?key\b|^\W*api key not valid\b/i,
    sent: 'xAI (400 `invalid-argument`, “Incorrect API key provided”)',
    source: 'recorded',
  },
  {
    means: 'model',
    statuses: [413, 429],
    message: /^\W*request too large for .{0,200}\btokens per (?:min|day)/i,
    sent: 'Groq (413), OpenAI (429): the request alone is larger than the key’s tokens per minute',
    source: 'console.groq.com/docs, errors; developers.openai.com, error codes',
  },
  {
    means: 'permission',
    statuses: [400],
    message: /free tier is not available in your country|^\W*user location is not supported/i,
    sent: 'Gemini (400 `FAILED_PRECONDITION`): the operator’s project may not be used from here',
    source: 'ai.google.dev, API errors',
  },
  {
    means: 'request',
    statuses: [403],
    message: /\bflagged\b|\bmoderation\b|violates? (?:\w+ )?usage guidelines|safety_check_type/i,
    sent: 'OpenRouter (403, the input was flagged), xAI (403 “Content violates usage guidelines”)',
    source: 'openrouter.ai/docs, errors; github.com UKGovernmentBEIS/inspect_ai 2267, theopenco/llmgateway 1785',
  },
  {
    means: 'too_long',
    statuses: [403],
    message: tooLongWords,
    sent: 'Together (403): input and output limit are longer than the context',
    source: 'docs.together.ai, error codes',
  },
  {
    means: 'request',
    statuses: [404],
    message:
      /^\W*no endpoints found that (?:support|can handle)\b|^\W*(?:tools?|functions?) (?:is|are) not supported\b|^\W*(?:item|conversation|previous response|response|file|container|vector store|cached content)\b.{0,120}\bnot found\b/i,
    sent: 'OpenRouter (404 “No endpoints found that support tool use”), OpenAI (404 “tools is not supported in this model”, “Item with id … not found”)',
    source: 'recorded; github.com vercel/ai 7543, can1357/oh-my-pi 41',
  },
  {
    means: 'model',
    statuses: [400],
    code: /^model_(?:not_found|decommissioned|not_available)$/,
    sent: 'Groq (400 `model_decommissioned`), OpenAI’s Responses (400 `model_not_found`)',
    source: 'recorded',
  },
  {
    means: 'loading',
    statuses: [503],
    message: /\bloading model\b|\bmodel (is )?(still |currently )?loading\b/i,
    sent: 'local servers (503) that are loading a model',
    source: 'github.com ggml-org/llama.cpp, server',
  },
  {
    means: 'too_long',
    code: /context_?(length|window)|^too_many_prompt_tokens$/,
    sent: 'OpenAI (`context_length_exceeded`), Perplexity (`too_many_prompt_tokens`)',
    source: 'recorded',
  },
  {
    means: 'too_long',
    message: tooLongWords,
    sent: 'Anthropic (“prompt is too long”), Gemini, Ollama, vLLM, llama.cpp and others: by their messages',
    source: 'recorded',
  },
  {
    means: 'request',
    message: contentWords,
    sent: 'llama.cpp and Ollama, also with 500: images, templates and schemas that the model can’t handle',
    source: 'github.com ggml-org/llama.cpp, ollama/ollama',
  },
];

/** An error as its body has it. */
export interface ReportedError {
  /** Undefined: it has none. */
  readonly status: number | undefined;
  /** Its codes, types and reasons. */
  readonly codes: readonly string[];
  /** '' if it has none. */
  readonly message: string;
}

/** Returns what an error means by the table; undefined: its status decides. */
export function findMeaning({ status, codes, message }: ReportedError): FailureMeaning | undefined {
  const isAboutKeys = status !== undefined && aboutKeys.has(status);
  return providerErrors.find(row => {
    const { means, statuses } = row;
    const fits =
      statuses === undefined
        ? !isAboutKeys || (means !== 'request' && means !== 'too_long')
        : status !== undefined && statuses.includes(status);
    if (!fits || (row.code !== undefined && !codes.some(code => row.code?.test(code)))) return false;
    return row.message === undefined || row.message.test(message);
  })?.means;
}
