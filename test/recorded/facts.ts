import type { Json, JsonObject } from '../../src/codecs/codec.ts';
import { listIn, objectIn, objectsIn, textIn } from '../../src/codecs/json.ts';
import type { PlayedProtocol } from './exchange.ts';

/** How an answer ended; `open`: the provider did not say. */
export type Ending = 'stop' | 'length' | 'calls' | 'filter' | 'pause' | 'open' | 'other';

/** What an answer says, in one form for all protocols. */
export interface Facts {
  readonly text: string;
  /** Without white space, which protocols divide differently. */
  readonly reasoning: string;
  readonly calls: readonly { readonly name: string; readonly arguments: string; readonly id: string }[];
  readonly ending: Ending;
  /** Undefined if there is no plausible count. */
  readonly usage: TokenFacts | undefined;
  /** The addresses of cited pages, sorted, each once. */
  readonly pages: readonly string[];
  readonly images: number;
}

/** Counts of tokens; the input contains cached and written tokens. */
export interface TokenFacts {
  readonly input: number;
  readonly cached: number;
  readonly written: number;
  readonly output: number;
}

/** Returns what a whole answer says. */
export function readFacts(protocol: PlayedProtocol, answer: JsonObject): Facts {
  return readers[protocol](answer);
}

const readers: Readonly<Record<PlayedProtocol, (answer: JsonObject) => Facts>> = {
  chat: chatFacts,
  completions: chatFacts,
  responses: responsesFacts,
  messages: messagesFacts,
  gemini: geminiFacts,
};

const endingNames: Readonly<Partial<Record<Ending, string>>> = {
  stop: 'stop end_turn stop_sequence eos STOP',
  length: 'length max_tokens model_length MAX_TOKENS max_output_tokens model_context_window_exceeded',
  calls: 'tool_calls function_call tool_use',
  pause: 'pause_turn',
  filter: 'content_filter refusal SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY MODEL_ARMOR',
};
const endings = new Map(
  Object.entries(endingNames).flatMap(([ending, names]) => names.split(' ').map(name => [name, ending as Ending])),
);

function readEnding(value: Json | undefined): Ending {
  return value == null || value === '' ? 'open' : (endings.get(textIn(value)) ?? 'other');
}

const number = (value: Json | undefined): number => (typeof value === 'number' ? value : 0);
const bare = (text: string): string => text.replaceAll(/\s+/g, '');
const sources = (urls: readonly string[]): string[] => [...new Set(urls.filter(url => url !== ''))].toSorted();

/** Returns arguments as JSON with sorted members, so that only their meaning is compared. */
function sortedText(value: Json | undefined): string {
  if (typeof value !== 'string') return JSON.stringify(sorted(value ?? {}));
  try {
    return value.trim() === '' ? '{}' : JSON.stringify(sorted(JSON.parse(value) as Json));
  } catch {
    return value;
  }
}

function sorted(value: Json): Json {
  if (Array.isArray(value)) return value.map(sorted);
  const members = objectIn(value);
  if (members === undefined) return value;
  return Object.fromEntries(
    Object.entries(members)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, each]) => [name, sorted(each)]),
  );
}

function chatFacts(answer: JsonObject): Facts {
  const choice = objectsIn(answer['choices'])[0] ?? {};
  const message = objectIn(choice['message']) ?? {};
  const parts = objectsIn(message['content']);
  const textOf = (value: Json | undefined): string =>
    textIn(value) ||
    objectsIn(value)
      .map(each => textIn(each['text']))
      .join('');
  const text = Array.isArray(message['content'])
    ? parts.map(part => (part['type'] === 'thinking' ? '' : textIn(part['text']))).join('')
    : textIn(message['content']) || textIn(choice['text']);
  const thinking = parts.map(part => textOf(part['thinking'])).join('');
  const details = objectsIn(message['reasoning_details']).map(each => textIn(each['text']) || textIn(each['summary']));
  const plain =
    textIn(message['reasoning_content']) || textIn(message['reasoning']) || textIn(message['reasoning_text']);
  const legacy = objectIn(message['function_call']);
  const calls = objectsIn(message['tool_calls']).map(call => {
    const isCustom = call['type'] === 'custom' && objectIn(call['custom']) !== undefined;
    const made = objectIn(isCustom ? call['custom'] : call['function']) ?? {};
    const written = isCustom ? { input: made['input'] ?? '' } : withoutEmptyObject(made['arguments']);
    return { name: textIn(made['name']), arguments: sortedText(written), id: textIn(call['id']) };
  });
  if (calls.length === 0 && legacy !== undefined && textIn(legacy['name']) !== '') {
    calls.push({ name: textIn(legacy['name']), arguments: sortedText(legacy['arguments']), id: '' });
  }
  return {
    text: textIn(message['refusal']) + text,
    reasoning: bare(details.join('') || plain || thinking),
    calls,
    ending: textIn(message['refusal']) === '' ? readEnding(choice['finish_reason']) : 'filter',
    usage: openAiUsage(objectIn(answer['usage']) ?? objectIn(objectIn(answer['x_groq'])?.['usage'])),
    pages: sources(objectsIn(message['annotations']).map(each => textIn(objectIn(each['url_citation'])?.['url']))),
    images: listIn(message['images']).length,
  };
}

/** Returns arguments without the empty object that some servers put before them. */
function withoutEmptyObject(value: Json | undefined): Json | undefined {
  return typeof value === 'string' && /^\{\}\s*\{/.test(value) ? value.slice(2) : value;
}

/** Reads the usage of Chat and Responses; what the total or the parts show to be counted beside the rest is added. */
function openAiUsage(usage: JsonObject | undefined): TokenFacts | undefined {
  if (usage === undefined) return undefined;
  const [read, written] = [
    usage['prompt_tokens'] ?? usage['input_tokens'],
    usage['completion_tokens'] ?? usage['output_tokens'],
  ];
  const details = objectIn(usage['prompt_tokens_details'] ?? usage['input_tokens_details']) ?? {};
  const made = objectIn(usage['completion_tokens_details'] ?? usage['output_tokens_details']) ?? {};
  if (number(read) === 0 && number(written) === 0) return undefined;
  const cached = number(details['cached_tokens'] ?? usage['prompt_cache_hit_tokens'] ?? usage['cached_tokens']);
  const input = cached > number(read) ? number(read) + cached : number(read);
  const rest = number(usage['total_tokens']) - input - number(written);
  const reasoning = number(made['reasoning_tokens']);
  const isBeside = rest > 0 && (rest === reasoning || reasoning === 0);
  return {
    input,
    cached,
    written: Math.min(number(details['cache_write_tokens']), input - cached),
    output: number(written) + (isBeside ? rest : 0),
  };
}

function responsesFacts(answer: JsonObject): Facts {
  const output = objectsIn(answer['output']);
  const parts = output.filter(({ type }) => type === 'message').flatMap(item => objectsIn(item['content']));
  const reasoning = output
    .filter(({ type }) => type === 'reasoning')
    .flatMap(item => {
      const summary = objectsIn(item['summary']);
      return (summary.length > 0 ? summary : objectsIn(item['content'])).map(part => textIn(part['text']));
    });
  const calls = output
    .filter(({ type }) => type === 'function_call' || type === 'custom_tool_call')
    .map(item => ({
      name: textIn(item['name']),
      arguments: sortedText(item['type'] === 'custom_tool_call' ? { input: item['input'] ?? '' } : item['arguments']),
      id: textIn(item['call_id']),
    }));
  const refusal = parts.map(part => textIn(part['refusal'])).join('');
  const reason = objectIn(answer['incomplete_details'])?.['reason'];
  const whole = answer['status'] === 'completed' || answer['status'] === undefined ? 'stop' : 'other';
  const ending = answer['status'] === 'incomplete' ? (reason == null ? 'length' : readEnding(reason)) : whole;
  return {
    text: refusal + parts.map(part => (part['type'] === 'output_text' ? textIn(part['text']) : '')).join(''),
    reasoning: bare(reasoning.join('')),
    calls,
    ending: refusal === '' ? ending : 'filter',
    usage: openAiUsage(objectIn(answer['usage'])),
    pages: sources(parts.flatMap(part => objectsIn(part['annotations']).map(each => textIn(each['url'])))),
    images: output.filter(item => item['type'] === 'image_generation_call' && textIn(item['result']) !== '').length,
  };
}

function messagesFacts(answer: JsonObject): Facts {
  const blocks = objectsIn(answer['content']);
  const ofType = (type: string): JsonObject[] => blocks.filter(block => block['type'] === type);
  const counts = objectIn(answer['usage']);
  // A compaction, or an advisor, in the middle of an answer is counted only in the list of its passes.
  const passes = objectsIn(counts?.['iterations']);
  const usages = passes.length > 1 ? passes : counts === undefined ? [] : [counts];
  const sum = (name: string): number => usages.reduce((total, each) => total + number(each[name]), 0);
  const [cached, written] = [sum('cache_read_input_tokens'), sum('cache_creation_input_tokens')];
  const input = sum('input_tokens') + cached + written;
  return {
    text: ofType('text')
      .map(block => textIn(block['text']))
      .join(''),
    reasoning: bare(
      ofType('thinking')
        .map(block => textIn(block['thinking']))
        .join(''),
    ),
    calls: ofType('tool_use').map(block => ({
      name: textIn(block['name']),
      arguments: sortedText(block['input']),
      id: textIn(block['id']),
    })),
    ending: readEnding(answer['stop_reason']),
    usage:
      input === 0 && sum('output_tokens') === 0 ? undefined : { input, cached, written, output: sum('output_tokens') },
    pages: sources(blocks.flatMap(block => objectsIn(block['citations']).map(each => textIn(each['url'])))),
    images: 0,
  };
}

function geminiFacts(answer: JsonObject): Facts {
  const candidate = objectsIn(answer['candidates'])[0] ?? {};
  const parts = objectsIn(objectIn(candidate['content'])?.['parts']);
  const texts = (isThought: boolean): string =>
    parts.map(part => ((part['thought'] === true) === isThought ? textIn(part['text']) : '')).join('');
  const calls = parts.flatMap(part => {
    const call = objectIn(part['functionCall']);
    return call === undefined
      ? []
      : [{ name: textIn(call['name']), arguments: sortedText(call['args']), id: textIn(call['id']) }];
  });
  const usage = objectIn(answer['usageMetadata']);
  const blocked = objectIn(answer['promptFeedback'])?.['blockReason'] != null;
  const chunks = objectsIn(objectIn(candidate['groundingMetadata'])?.['groundingChunks']);
  const input = number(usage?.['promptTokenCount']) + number(usage?.['toolUsePromptTokenCount']);
  const output = number(usage?.['candidatesTokenCount']) + number(usage?.['thoughtsTokenCount']);
  return {
    text: texts(false),
    reasoning: bare(texts(true)),
    calls,
    ending: blocked && candidate['finishReason'] == null ? 'filter' : readEnding(candidate['finishReason']),
    usage:
      usage?.['candidatesTokenCount'] === undefined
        ? undefined
        : { input, cached: number(usage['cachedContentTokenCount']), written: 0, output },
    pages: sources(chunks.map(chunk => textIn(objectIn(chunk['web'])?.['uri']))),
    images: parts.filter(part => textIn(objectIn(part['inlineData'])?.['mimeType']).startsWith('image/')).length,
  };
}
