import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import type { Json } from '../codec.ts';
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
    choices: listIn(answer['choices']).map(withNumberedCalls),
  });
}

/** Returns a choice of a whole answer whose calls are numbered by their position, whatever index they have. */
function withNumberedCalls(value: Json): Json {
  const choice = objectIn(value);
  const message = objectIn(choice?.['message']);
  if (choice === undefined || message === undefined || !Array.isArray(message['tool_calls'])) return value;
  const calls = message['tool_calls'].map((call, index) => ({ ...objectIn(call), index }));
  return { ...choice, message: { ...message, tool_calls: calls } };
}
