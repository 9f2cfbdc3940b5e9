import * as z from 'zod';
import { type EmbeddingInput, type EmbedRequest, VectorForm } from '../../gen/tollgate/v1/embedding_pb.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import { inputsMax } from '../../generation/embeddings/check-embed-request.ts';
import { unknownMembers } from '../json.ts';
import { documented } from '../../lib/schema-notes.ts';
import { integerIn, invalidField, members, object, exactlyOneOf, parseBody, someText, text } from '../schema.ts';

const tokenMax = 2 ** 32 - 1;
const token = { type: 'integer', minimum: 0, maximum: tokenMax };
const tokens = { type: 'array', minItems: 1, items: token };
const input = documented(z.unknown(), {
  json: {
    anyOf: [
      { type: 'string', minLength: 1 },
      { type: 'array', minItems: 1, maxItems: inputsMax, items: { type: 'string', minLength: 1 } },
      tokens,
      { type: 'array', minItems: 1, maxItems: inputsMax, items: tokens },
    ],
  },
});

/** The body of an embeddings request. The inputs are checked separately, because they can be thousands of numbers. Unknown members stay in the checked value. */
export const embeddingsRequestSchema = object({
  model: someText,
  input,
  encoding_format: exactlyOneOf(['float', 'base64']).nullish(),
  dimensions: integerIn(1, 65_536).nullish(),
  user: text.nullish(),
});
const requestMembers = members(...Object.keys(embeddingsRequestSchema.shape));
const inputAllowed = 'must be a string, an array of strings, an array of token ids, or an array of such arrays';

/** Decodes the body of an embeddings request. Throws `validation_error` that names the field. */
export function decodeEmbedRequest(body: unknown): EmbedRequest {
  const checked = parseBody(embeddingsRequestSchema, body);
  const extra = unknownMembers(checked, requestMembers);
  return {
    $typeName: 'tollgate.v1.EmbedRequest',
    model: checked.model,
    ...decodeInput(checked.input),
    ...(checked.dimensions == null ? {} : { dimensions: checked.dimensions }),
    form: checked.encoding_format === 'base64' ? VectorForm.FLOAT32 : VectorForm.NUMBERS,
    user: checked.user ?? '',
    extraJson: extra === undefined ? '' : JSON.stringify(extra),
    strict: false,
    endpoint: Endpoint.EMBEDDINGS,
    geminiMembers: [],
  };
}

function decodeInput(input: unknown): Pick<EmbedRequest, 'inputs' | 'listed'> {
  if (input === undefined) throw invalidField('input', `is required and ${inputAllowed}`);
  if (typeof input === 'string') return { inputs: [textInput(input, 'input')], listed: false };
  if (!Array.isArray(input)) throw invalidField('input', inputAllowed);
  const list: readonly unknown[] = input;
  if (list.length === 0) throw invalidField('input', 'must not be empty');
  if (typeof list[0] === 'number') return { inputs: [tokenInput(list, 'input')], listed: false };
  if (list.length > inputsMax) throw invalidField('input', `must have at most ${inputsMax} entries`);
  const inputs = list.map((entry, index) => {
    const name = `input[${index}]`;
    if (typeof entry === 'string') return textInput(entry, name);
    if (Array.isArray(entry)) return tokenInput(entry, name);
    throw invalidField(name, 'must be a string or an array of token ids');
  });
  return { inputs, listed: true };
}

function textInput(value: string, name: string): EmbeddingInput {
  if (value === '') throw invalidField(name, 'must not be empty');
  return { $typeName: 'tollgate.v1.EmbeddingInput', text: value, tokens: [], geminiJson: '' };
}

function tokenInput(values: readonly unknown[], name: string): EmbeddingInput {
  if (values.length === 0) throw invalidField(name, 'must not be empty');
  for (const value of values) {
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value > tokenMax) {
      throw invalidField(name, `must hold token ids only, integers from 0 to ${tokenMax}`);
    }
  }
  return { $typeName: 'tollgate.v1.EmbeddingInput', text: '', tokens: values as number[], geminiJson: '' };
}
