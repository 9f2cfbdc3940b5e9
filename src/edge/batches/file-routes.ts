import { createHash } from 'node:crypto';
import multipart from '@fastify/multipart';
import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify';
import { renderFile } from '../../codecs/batches/render.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import { type File, ListOrder, type ReadFileContentResponse } from '../../gen/tollgate/v1/batch_pb.ts';
import { answerJson } from '../answer.ts';
import { type Call, readComparedPath } from '../call.ts';
import { ClientGone } from '../client-watch.ts';
import { authenticate } from '../credentials.ts';
import type { Edge } from '../edge.ts';
import { isForm } from '../form-body.ts';
import { tooLarge } from '../json-body.ts';
import { type Query, readInteger, readName, readText } from '../query.ts';
import { answerStreamed } from '../send-pieces.ts';

interface OneFile {
  readonly Params: { readonly id: string };
}

const path = '/v1/files';
const onePath = `${path}/:id`;
/** The most bytes of a form in addition to its file. */
const fieldBytesMax = 65_536;
/** The size of the pieces in which an upload is passed on. */
const pieceBytes = 262_144;
const pageMax = 10_000;
/** The largest page that the core returns. */
const pageMost = 1_000;

/**
 * Registers the file paths: upload, list, read and delete. They are in a separate Fastify scope, because the form plugin hooks into every
 * request of its scope.
 */
export function registerFiles(app: FastifyInstance, edge: Edge): void {
  const onRequest = [refuseAnthropic, authenticate(edge, 'api_key')];
  app.register(async scope => {
    await scope.register(multipart, {
      throwFileSizeLimit: false,
      limits: { fileSize: Infinity, fieldSize: fieldBytesMax, parts: 20 },
    });
    scope.post(path, { onRequest }, async (request, reply) => {
      answerJson(edge, request, reply, renderFile(await receiveFile(edge, request, reply)));
    });
  });
  app.get<{ Querystring: Query }>(path, { onRequest }, async (request, reply) => {
    const { files, hasMore } = await edge.files.listFiles(readPage(request.query), { headers: request.call });
    const ids = { first_id: files[0]?.id ?? null, last_id: files.at(-1)?.id ?? null };
    answerJson(edge, request, reply, { object: 'list', data: files.map(renderFile), ...ids, has_more: hasMore });
  });
  app.get<OneFile>(onePath, { onRequest }, async (request, reply) => {
    const { file } = await edge.files.getFile({ fileId: request.params.id }, { headers: request.call });
    answerJson(edge, request, reply, renderFile(present(file)));
  });
  app.delete<OneFile>(onePath, { onRequest }, async (request, reply) => {
    const { id } = request.params;
    await edge.files.deleteFile({ fileId: id }, { headers: request.call });
    answerJson(edge, request, reply, { id, object: 'file', deleted: true });
  });
  app.get<OneFile>(`${onePath}/content`, { onRequest }, async (request, reply) => {
    await answerStreamed(edge, { request, reply }, signal => openContent(edge, request, signal));
  });
}

/** Refuses clients of Anthropic, which expect Anthropic's Files API at this path; it is not supported. */
const refuseAnthropic: onRequestHookHandler = ({ call }, _reply, proceed) => {
  proceed(
    call.errorShape === 'messages'
      ? new GatewayError('not_found', 'No such path, or not with this method.')
      : undefined,
  );
};

function readPage(query: Query) {
  const ascending = readName(query, 'order', ['asc', 'desc']) === 'asc';
  return {
    limit: Math.min(readInteger(query, 'limit', { min: 1, max: pageMax }) ?? pageMost, pageMost),
    after: readText(query, 'after') ?? '',
    order: ascending ? ListOrder.ASCENDING : ListOrder.DESCENDING,
    purpose: readText(query, 'purpose') ?? '',
  };
}

function present(file: File | undefined): File {
  if (file === undefined) throw new GatewayError('internal', 'The gateway failed.', { cause: new Error('no file') });
  return file;
}

async function openContent(
  edge: Edge,
  { params, call }: FastifyRequest<{ Params: OneFile['Params'] }>,
  signal: AbortSignal,
) {
  const answers = edge.files.readFileContent({ fileId: params.id }, { headers: call, signal });
  const first = await answers.next();
  if (first.done === true || first.value.content.case !== 'file') throw new Error('a file without its facts');
  return {
    headers: { 'content-type': 'application/jsonl', 'content-length': Number(first.value.content.value.bytes) },
    pieces: readChunks(answers),
  };
}

async function* readChunks(answers: AsyncIterable<ReadFileContentResponse>) {
  for await (const { content } of answers) if (content.case === 'chunk') yield content.value;
}

/** Reads a file from a form, piece by piece, and stores it. Throws the error for the client. */
async function receiveFile(edge: Edge, request: FastifyRequest, reply: FastifyReply): Promise<File> {
  const { raw } = request;
  if (!isForm(request)) {
    throw new GatewayError('invalid_request', 'The body must be multipart/form-data with a file and its purpose.');
  }
  const { fileBytesMax } = edge.options;
  if (Number(raw.headers['content-length'] ?? 0) > fileBytesMax + fieldBytesMax) throw tooLarge(fileBytesMax);
  // The client waits for this before it sends the body; a refusal before this point saves the upload.
  if (raw.headers.expect !== undefined) reply.raw.writeContinue();
  try {
    return await storeParts(edge, request);
  } catch (thrown) {
    // Whoever writes the error answer discards the rest of the body.
    raw.unpipe();
    throw raw.socket.destroyed ? new ClientGone() : thrown;
  }
}

/** Yields parts of a form, or pieces of its file. Throws `invalid_request` if the form can't be read. */
async function* readForm<Part>(parts: AsyncIterable<Part>): AsyncGenerator<Part, void, undefined> {
  try {
    yield* parts;
  } catch (thrown) {
    const reason = thrown instanceof Error ? `: ${thrown.message}` : '';
    throw new GatewayError('invalid_request', `The form can’t be read${reason}.`, { cause: thrown });
  }
}

async function storeParts(edge: Edge, request: FastifyRequest): Promise<File> {
  const options = { headers: request.call };
  const hash = readComparedPath(request) === undefined ? undefined : createHash('sha256');
  let upload: { readonly id: string; readonly filename: string } | undefined;
  let purpose = '';
  try {
    for await (const part of readForm(request.parts())) {
      if (part.type === 'field') {
        if (part.fieldname === 'purpose') purpose = String(part.value);
        continue;
      }
      if (upload !== undefined || part.fieldname !== 'file') throw invalidFile('must be one file in the field `file`');
      const { uploadId } = await edge.files.createFile({}, options);
      upload = { id: uploadId, filename: part.filename };
      for await (const content of joinPieces(readForm(part.file as AsyncIterable<Buffer>))) {
        hash?.update(content);
        await edge.files.appendFile({ uploadId, content }, options);
      }
    }
    if (upload === undefined) throw invalidFile('is required');
    const { id, filename } = upload;
    if (hash !== undefined) {
      const raw = Buffer.from(JSON.stringify([hash.digest('base64url'), filename, purpose]));
      request.call.setFingerprint(request, { raw });
    }
    const { file, requestId } = await edge.files.finishFile({ uploadId: id, filename, purpose }, options);
    request.call.setAnswered(requestId);
    return present(file);
  } catch (thrown) {
    if (upload !== undefined) await discardUpload(edge, upload.id, options);
    throw thrown;
  }
}

/** Gives back at once what an upload that has failed has taken. Never rejects: what remains is discarded after a time without a piece. */
export async function discardUpload(edge: Edge, uploadId: string, options: { readonly headers: Call }): Promise<void> {
  await edge.files.finishFile({ uploadId, discard: true }, options).catch(() => undefined);
}

/** Joins small pieces, so that fewer calls are made. */
export async function* joinPieces(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, undefined> {
  let waiting: Buffer[] = [];
  let size = 0;
  for await (const piece of pieces) {
    waiting.push(piece);
    size += piece.length;
    if (size < pieceBytes) continue;
    yield Buffer.concat(waiting);
    waiting = [];
    size = 0;
  }
  if (size > 0) yield Buffer.concat(waiting);
}

function invalidFile(message: string): GatewayError {
  const violations = [{ path: ['file'], message, type: 'value_error' }];
  return new GatewayError('validation_error', `file: ${message}`, { param: 'file', violations });
}
