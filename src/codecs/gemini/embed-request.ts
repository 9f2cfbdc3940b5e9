import * as z from 'zod';
import { type EmbedRequest, type EmbedResponse, type Vector, VectorForm } from '../../gen/tollgate/v1/embedding_pb.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import { inputsMax } from '../../generation/embeddings/check-embed-request.ts';
import type { Json, JsonObject } from '../codec.ts';
import { toDollars } from '../dollars.ts';
import { defined, listIn, objectIn } from '../json.ts';
import { integerIn, invalidField, listOf, object, parseBody, text } from '../schema.ts';
import { forms, toCamelCase, toNormalForm } from './normal-form.ts';

/** Decodes requests of embedContent and batchEmbedContents, and renders their answers. Source: docs/interfaces/gemini.md "Embeddings". */

const part = object({ text: text.nullish() });

/** A request of embedContent; the model is in the path. Unknown members stay in the checked value. */
export const geminiEmbedSchema = object({
  content: object({ parts: z.array(part, 'must be an array of parts').min(1, 'must have at least one entry') }),
  taskType: text.nullish(),
  title: text.nullish(),
  outputDimensionality: integerIn(1, 65_536).nullish(),
});

/** A request of batchEmbedContents. */
export const geminiBatchEmbedSchema = object({ requests: listOf(geminiEmbedSchema, 1, inputsMax) });

/** Decodes a request for one text. Throws `validation_error` that names the field. */
export function decodeEmbedRequest(body: unknown, model: string): EmbedRequest {
  const checked = parseBody(geminiEmbedSchema, toNormalForm(body, forms.embedding));
  return toRequest(model, { requests: [checked], sent: [objectIn(body as Json) ?? {}], listed: false });
}

/** Decodes a request for several texts. Throws `validation_error` that names the field. */
export function decodeBatchEmbedRequest(body: unknown, model: string): EmbedRequest {
  const { requests } = parseBody(geminiBatchEmbedSchema, toNormalForm(body, forms.embeddings));
  const sent = objectIn(body as Json)?.['requests'];
  const list = Array.isArray(sent) ? listIn(sent) : [sent ?? {}];
  return toRequest(model, { requests, sent: list.map(each => objectIn(each) ?? {}), listed: true });
}

/** The requests in their normal form, and as the client sent them. */
interface ReceivedTexts {
  readonly requests: readonly z.output<typeof geminiEmbedSchema>[];
  readonly sent: readonly JsonObject[];
  readonly listed: boolean;
}

function toRequest(model: string, { requests, sent, listed }: ReceivedTexts): EmbedRequest {
  const [dimensions, ...others] = requests.map(each => each.outputDimensionality ?? undefined);
  const other = others.findIndex(each => each !== dimensions);
  if (other !== -1) {
    throw invalidField(`requests.${other + 1}.outputDimensionality`, 'must be the same in all requests');
  }
  return {
    $typeName: 'tollgate.v1.EmbedRequest',
    model,
    inputs: requests.map(({ content }, index) => ({
      $typeName: 'tollgate.v1.EmbeddingInput',
      text: readText(content.parts, listed ? `requests.${index}.content` : 'content'),
      tokens: [],
      geminiJson: JSON.stringify(sent[index]),
    })),
    ...defined({ dimensions }),
    form: VectorForm.NUMBERS,
    user: '',
    extraJson: '',
    listed,
    strict: false,
    endpoint: Endpoint.GEMINI_EMBEDDINGS,
    geminiMembers: listMembers(sent),
  };
}

const portableMembers = new Set(['model', 'content', 'outputDimensionality']);

/** Returns the members that other protocols have no place for. */
function listMembers(sent: readonly JsonObject[]): string[] {
  const names = sent.flatMap(each => Object.keys(each).map(toCamelCase));
  return [...new Set(names)].filter(name => !portableMembers.has(name));
}

/** Returns the text of all parts, each on its own lines. */
function readText(parts: readonly z.output<typeof part>[], path: string): string {
  const texts = parts.map((each, index) => {
    if (typeof each.text === 'string') return each.text;
    throw invalidField(`${path}.parts.${index}`, 'must be text');
  });
  return texts.join('\n');
}

/** Renders the answer of embedContent. */
export function renderEmbedding(answer: EmbedResponse): JsonObject {
  const [embedding = values(undefined)] = answer.vectors.map(values);
  return { embedding, usageMetadata: renderUsage(answer) };
}

/** Renders the answer of batchEmbedContents. */
export function renderEmbeddings(answer: EmbedResponse): JsonObject {
  return { embeddings: answer.vectors.map(values), usageMetadata: renderUsage(answer) };
}

function values(vector: Vector | undefined): JsonObject {
  return { values: vector?.numbers ?? [] };
}

function renderUsage({ inputTokens, costNanoUsd }: EmbedResponse): JsonObject {
  return { promptTokenCount: inputTokens, totalTokenCount: inputTokens, cost: toDollars(costNanoUsd) };
}
