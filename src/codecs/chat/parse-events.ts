import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import type { Json, JsonObject } from '../codec.ts';
import { listIn, objectIn } from '../json.ts';
import { type ChunkDialect, ChunkParser, parseWholeAnswer } from '../openai-stream.ts';
import { malformed } from '../upstream-error.ts';
import { ChoiceParser, isPlainChoice } from './choice-parser.ts';
import { extras } from './extras.ts';
import { usage } from './usage.ts';

const dialect: ChunkDialect = { extras, usage, isPlainChoice, openChoice: context => new ChoiceParser(context) };

/** Returns the parser of a stream. */
export function openStream(provider: string): ChunkParser {
  return new ChunkParser(dialect, provider);
}

/** Parses a whole answer into the events that a stream of it would have given. Throws `UpstreamFailure` `malformed` or `reported`. */
export function parseWhole(body: Json, provider: string): GenerationEvent[] {
  const answer = objectIn(body);
  if (answer === undefined) throw malformed('the answer is not a JSON object');
  return parseWholeAnswer(openStream(provider), {
    ...answer,
    choices: listIn(answer['choices']).map(toMessageChoice),
  });
}

/** Returns a choice of a whole answer, of which the message counts, and not the delta that Perplexity sends beside it (2025-01). Its calls are numbered by their position, whatever index they have. */
function toMessageChoice(value: Json): Json {
  const choice = objectIn(value);
  const message = objectIn(choice?.['message']);
  if (choice === undefined || message === undefined) return value;
  const { delta: _, ...rest } = choice;
  if (!Array.isArray(message['tool_calls'])) return rest;
  const calls = message['tool_calls'].map((call, index) => ({ ...withOneObject(objectIn(call) ?? {}), index }));
  return { ...rest, message: { ...message, tool_calls: calls } };
}

/** Returns a call without the empty object that some vLLM servers put before the arguments (OpenRouter's Venice, 2025-10). */
function withOneObject(call: JsonObject): JsonObject {
  const called = objectIn(call['function']);
  const written = called?.['arguments'];
  if (typeof written !== 'string' || !/^\{\}\s*\{/.test(written)) return call;
  return { ...call, function: { ...called, arguments: written.slice(2) } };
}
