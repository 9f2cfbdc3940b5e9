import type { Vector } from '../gen/tollgate/v1/embedding_pb.ts';
import { toVector } from '../generation/embeddings/vectors.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import type { Json } from './codec.ts';

/** Parses an answer's JSON. Throws `UpstreamFailure` `malformed`. */
export function parseAnswerJson(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch (cause) {
    throw new UpstreamFailure('malformed', { cause });
  }
}

/** Returns a list of numbers as a vector. Throws `UpstreamFailure` `malformed` if it is not one. */
export function parseNumbers(value: Json | undefined): Vector {
  if (!Array.isArray(value) || !value.every(each => typeof each === 'number')) {
    throw malformedAnswer('a vector that is not a list of numbers');
  }
  return toVector(value);
}

/** Returns a failure that describes what is wrong with an answer. */
export function malformedAnswer(what: string): UpstreamFailure {
  return new UpstreamFailure('malformed', { cause: new Error(`the answer has ${what}`) });
}
