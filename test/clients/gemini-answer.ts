/** Converts a Chat stream of a second gateway to the frames of generateContent. */
import type { Candidate, GenerateContentResponseUsageMetadata, Part } from '@google/genai';
import { makeSignature, textSignature } from './gemini-request.ts';

/** The members of a Chat chunk that are converted. */
export interface ChatChunk {
  readonly choices?: readonly ChatChoice[];
  readonly usage?: {
    prompt_tokens: number;
    completion_tokens: number;
    prompt_tokens_details?: { cached_tokens?: number };
    completion_tokens_details?: { reasoning_tokens?: number };
  } | null;
  readonly service_tier?: string;
  readonly error?: { message: string; type: string };
}

interface ChatChoice {
  readonly index: number;
  readonly delta: {
    readonly content?: string | null;
    readonly refusal?: string | null;
    readonly reasoning_content?: string;
    readonly tool_calls?: readonly { index: number; function?: { name?: string; arguments?: string } }[];
  };
  readonly finish_reason: string | null;
  readonly logprobs?: { content?: readonly ChatLogprob[] | null } | null;
}

interface ChatLogprob {
  readonly token: string;
  readonly logprob: number;
  readonly top_logprobs: readonly { token: string; logprob: number }[];
}

/** A frame: a whole `GenerateContentResponse` as JSON. */
export interface GeminiFrame {
  readonly candidates?: Candidate[];
  readonly usageMetadata?: GenerateContentResponseUsageMetadata & { serviceTier?: string };
  readonly modelVersion: string;
  readonly responseId: string;
}

const finishes: Readonly<Record<string, string>> = {
  stop: 'STOP',
  tool_calls: 'STOP',
  length: 'MAX_TOKENS',
  content_filter: 'SAFETY',
};

/** The settings of an answer. */
export interface AnswerSettings {
  readonly model: string;
  readonly responseId: string;
  /** Whether the answer includes the reasoning. */
  readonly includeThoughts: boolean;
  readonly signsTexts: boolean;
}

/** Converts chunks to frames: text at once, calls whole at the end, with signatures on the first call and on the last text. */
export class GeminiAnswer {
  readonly #settings: AnswerSettings;
  readonly #calls = new Map<number, { name: string; arguments: string }[]>();
  #tier = 'standard';

  constructor(settings: AnswerSettings) {
    this.#settings = settings;
  }

  push({ choices = [], usage, service_tier: tier }: ChatChunk): GeminiFrame[] {
    if (tier !== undefined) this.#tier = tier === 'default' ? 'standard' : tier;
    const frames = choices.flatMap(choice => this.#choice(choice));
    return usage == null ? frames : [...frames, this.#frame({ usageMetadata: this.#usage(usage) })];
  }

  #choice({ index, delta, finish_reason: finish, logprobs }: ChatChoice): GeminiFrame[] {
    const calls = this.#calls.get(index) ?? [];
    this.#calls.set(index, calls);
    for (const call of delta.tool_calls ?? []) {
      const known = calls[call.index] ?? { name: '', arguments: '' };
      calls[call.index] = known;
      known.name += call.function?.name ?? '';
      known.arguments += call.function?.arguments ?? '';
    }
    const parts: Part[] = [];
    if (this.#settings.includeThoughts && delta.reasoning_content)
      parts.push({ text: delta.reasoning_content, thought: true });
    const text = (delta.content ?? '') + (delta.refusal ?? '');
    if (text !== '') parts.push({ text });
    if (finish !== null) parts.push(...callParts(calls, finish));
    // The end of a text is signed by a part without text, as the newest models do.
    if (finish === 'stop' && calls.length === 0 && this.#settings.signsTexts)
      parts.push({ text: '', thoughtSignature: textSignature });
    if (parts.length === 0 && finish === null) return [];
    const candidate = {
      index,
      content: { role: 'model', parts },
      ...(finish === null ? {} : { finishReason: finishes[finish] }),
      ...(logprobs?.content ? { logprobsResult: toLogprobs(logprobs.content) } : {}),
    };
    // The enum exists only in the client's types; the JSON has a string.
    return [this.#frame({ candidates: [candidate as Candidate] })];
  }

  #usage(usage: NonNullable<ChatChunk['usage']>): NonNullable<GeminiFrame['usageMetadata']> {
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    const thoughts = usage.completion_tokens_details?.reasoning_tokens ?? 0;
    return {
      promptTokenCount: usage.prompt_tokens,
      candidatesTokenCount: usage.completion_tokens - thoughts,
      totalTokenCount: usage.prompt_tokens + usage.completion_tokens,
      ...(cached === 0 ? {} : { cachedContentTokenCount: cached }),
      ...(thoughts === 0 ? {} : { thoughtsTokenCount: thoughts }),
      serviceTier: this.#tier,
    };
  }

  #frame(members: Pick<GeminiFrame, 'candidates' | 'usageMetadata'>): GeminiFrame {
    return { ...members, modelVersion: this.#settings.model, responseId: this.#settings.responseId };
  }
}

/** Returns whole calls as parts. The first call has a signature; every second call has an id. */
function callParts(calls: readonly { name: string; arguments: string }[], finish: string): Part[] {
  if (finish === 'length') return [];
  return calls.map(({ name, arguments: text }, place) => {
    const args = JSON.parse(text === '' ? '{}' : text) as Record<string, unknown>;
    const id = place % 2 === 1 ? { id: `up-${place}-${Math.random().toString(36).slice(2)}` } : {};
    return {
      functionCall: { ...id, name, args },
      ...(place === 0 ? { thoughtSignature: makeSignature(name, args) } : {}),
    };
  });
}

function toLogprobs(tokens: readonly ChatLogprob[]): Candidate['logprobsResult'] {
  const one = ({ token, logprob }: { token: string; logprob: number }) => ({ token, logProbability: logprob });
  return {
    chosenCandidates: tokens.map(one),
    topCandidates: tokens.map(token => ({ candidates: token.top_logprobs.map(one) })),
  };
}
