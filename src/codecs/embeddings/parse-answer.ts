import type { Vector } from '../../gen/tollgate/v1/embedding_pb.ts';
import type { Embedded } from '../../generation/embeddings/embedding-upstream.ts';
import { readVector } from '../../generation/embeddings/vectors.ts';
import { decodeBase64 } from '../../generation/media.ts';
import type { Json } from '../codec.ts';
import { countIn, objectIn } from '../json.ts';
import { malformedAnswer, parseAnswerJson, parseNumbers } from '../vector-answer.ts';

/** Parses an answer in OpenAI's format; vectors are in the order of their inputs. Throws `UpstreamFailure` `malformed` if the answer is not valid. */
export function parseEmbedAnswer(text: string): Omit<Embedded, 'dropped'> {
  const body = objectIn(parseAnswerJson(text));
  const data = body?.['data'];
  if (!Array.isArray(data)) throw malformedAnswer('no list of vectors');
  const usage = objectIn(body?.['usage']);
  // An embedding has no output, so whatever the total contains is input.
  const counts = ['prompt_tokens', 'total_tokens'].flatMap(name => countIn(usage?.[name]) ?? []);
  return { vectors: ordered(data), inputTokens: counts.length === 0 ? undefined : Math.max(...counts) };
}

/** Sorts the vectors by index, which must be 0 to n-1; keeps the order of the list if no entry has an index. */
function ordered(data: readonly Json[]): Vector[] {
  const entries = data.map(entry => {
    const object = objectIn(entry);
    if (object === undefined) throw malformedAnswer('an entry that is not an object');
    return { index: object['index'], vector: parseVector(object['embedding']) };
  });
  if (entries.every(({ index }) => index === undefined)) return entries.map(({ vector }) => vector);
  const vectors: (Vector | undefined)[] = Array.from({ length: entries.length });
  for (const { index, vector } of entries) {
    const isInRange = typeof index === 'number' && Number.isInteger(index) && index >= 0 && index < entries.length;
    if (!isInRange || vectors[index] !== undefined) throw malformedAnswer('indexes other than 0 to n-1');
    vectors[index] = vector;
  }
  return vectors.filter(vector => vector !== undefined);
}

function parseVector(value: Json | undefined): Vector {
  if (typeof value !== 'string') return parseNumbers(value);
  const bytes = decodeBase64(value);
  if (bytes === undefined || bytes.length % 4 !== 0) throw malformedAnswer('a vector that is not base64 of floats');
  return readVector(bytes);
}
