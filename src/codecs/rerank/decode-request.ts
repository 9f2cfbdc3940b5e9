import * as z from 'zod';
import type { RerankRequest } from '../../gen/tollgate/v1/rerank_pb.ts';
import { documentsMax } from '../../generation/rerank/check-rerank.ts';
import { unknownMembers } from '../json.ts';
import { documented } from '../../lib/schema-notes.ts';
import { flag, integerIn, invalidField, members, object, parseBody, someText, text } from '../schema.ts';

const someString = { type: 'string', minLength: 1 };
const documents = documented(z.unknown(), {
  json: {
    type: 'array',
    minItems: 1,
    maxItems: documentsMax,
    items: {
      anyOf: [someString, { type: 'object', properties: { text: someString }, required: ['text'] }],
    },
  },
});

/** The body of a rerank request. `decodeDocuments` checks `documents`, because there may be thousands. Unknown members stay in the parsed value. */
export const rerankRequestSchema = object({
  model: someText,
  query: someText,
  documents,
  top_n: integerIn(1).nullish(),
  return_documents: flag.nullish(),
  user: text.nullish(),
});
const requestMembers = members(...Object.keys(rerankRequestSchema.shape));
const uint32Max = 2 ** 32 - 1;

/** Decodes a rerank request in the format of Cohere, Jina and compatible servers. Throws a `validation_error` that names the field. */
export function decodeRerankRequest(body: unknown): RerankRequest {
  const checked = parseBody(rerankRequestSchema, body);
  const extra = unknownMembers(checked, requestMembers);
  return {
    $typeName: 'tollgate.v1.RerankRequest',
    model: checked.model,
    query: checked.query,
    documents: decodeDocuments(checked.documents),
    ...(checked.top_n == null ? {} : { topN: Math.min(checked.top_n, uint32Max) }),
    returnDocuments: checked.return_documents ?? false,
    user: checked.user ?? '',
    extraJson: extra === undefined ? '' : JSON.stringify(extra),
    strict: false,
  };
}

function decodeDocuments(documents: unknown): string[] {
  if (!Array.isArray(documents)) {
    const required = documents === undefined ? 'is required and ' : '';
    throw invalidField('documents', `${required}must be an array of strings or of objects with \`text\``);
  }
  if (documents.length === 0) throw invalidField('documents', 'must not be empty');
  if (documents.length > documentsMax) throw invalidField('documents', `must have at most ${documentsMax} entries`);
  return documents.map((document: unknown, index) => {
    const content: unknown = isObject(document) ? document['text'] : document;
    const name = `documents[${index}]`;
    if (typeof content !== 'string') throw invalidField(name, 'must be a string or an object with a string `text`');
    if (content === '') throw invalidField(name, 'must not be empty');
    return content;
  });
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
