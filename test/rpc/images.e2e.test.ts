/**
 * ImageService over the internal listener, as internal services call it. Its images are admitted, counted and paid like those of REST clients.
 */
import { createHash } from 'node:crypto';
import { Code, ConnectError, createClient, type Interceptor } from '@connectrpc/connect';
import { createGrpcTransport, createGrpcWebTransport } from '@connectrpc/connect-node';
import { afterAll, describe, expect, test } from 'vitest';
import { ErrorDetailSchema } from '../../src/gen/tollgate/v1/error_pb.ts';
import { type ImageAnswer, ImageForm, ImageService, ImageTaskStatus } from '../../src/gen/tollgate/v1/image_pb.ts';
import { Endpoint } from '../../src/gen/tollgate/v1/request_pb.ts';
import { makePng } from '../e2e/sample-image.ts';
import { readBalance, endGateway, heldBy, readRecord } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const gateway = await startGateway();
afterAll(() => endGateway(gateway));

const withKey =
  (key: string): Interceptor =>
  next =>
  request => {
    request.header.set('authorization', `Bearer ${key}`);
    return next(request);
  };
const options = (key: string) => ({ baseUrl: gateway.rpcUrl, interceptors: [withKey(key)] });
const images = createClient(ImageService, createGrpcTransport(options(gateway.apiKey)));

async function collectParts(answers: AsyncIterable<{ answer?: ImageAnswer | undefined }>) {
  const parts: ImageAnswer['part'][] = [];
  for await (const { answer } of answers) if (answer !== undefined) parts.push(answer.part);
  return parts;
}

const requested = { model: 'sim/image', prompt: 'hills', size: '700x700', form: ImageForm.BYTES, n: 2, seed: 4n };

describe('images', () => {
  test('come in order and in pieces: the start, each image and its bytes, the charge', async () => {
    const parts = await collectParts(images.generate({ request: requested }));
    expect(parts[0]).toMatchObject({ case: 'started', value: { model: 'sim/image' } });
    expect(parts.at(-1)).toMatchObject({ case: 'completed', value: { costNanoUsd: 40_000_000n } });
    const heads = parts.flatMap(part => (part.case === 'image' ? [part.value] : []));
    const chunks = parts.flatMap(part => (part.case === 'chunk' ? [part.value] : []));
    expect(heads.map(({ mediaType, url }) => [mediaType, url])).toEqual([
      ['image/png', ''],
      ['image/png', ''],
    ]);
    const sizes = heads.reduce((sum, { size }) => sum + Number(size), 0);
    expect(chunks.reduce((sum, chunk) => sum + chunk.length, 0)).toBe(sizes);
    expect(chunks.every(chunk => chunk.length <= 262_144)).toBe(true);
    const requestId = parts[0]?.case === 'started' ? parts[0].value.requestId : '';
    expect((await readRecord(gateway, requestId)).costNanoUsd).toBe(40_000_000n);
  });

  test('are the same over gRPC-Web', async () => {
    const web = createClient(ImageService, createGrpcWebTransport({ ...options(gateway.apiKey), httpVersion: '2' }));
    const hash = async (client: typeof images): Promise<string> => {
      const all = createHash('sha256');
      for (const part of await collectParts(client.generate({ request: requested }))) {
        if (part.case === 'chunk') all.update(part.value);
      }
      return all.digest('hex');
    };
    expect(await hash(web)).toBe(await hash(images));
  });

  test('with a URL can be read with any credential, by the token in the URL', async () => {
    const image = await makePng(30, 20, '#207020');
    const parts = await collectParts(images.edit({ request: { prompt: 'x', images: [image] } }));
    const url = parts.flatMap(part => (part.case === 'image' ? [part.value.url] : []))[0] ?? '';
    let type = '';
    const chunks: Uint8Array[] = [];
    for await (const { content } of images.readFile({ name: url.slice(url.lastIndexOf('/') + 1) })) {
      if (content.case === 'file') type = content.value.mediaType;
      else if (content.case === 'chunk') chunks.push(content.value);
    }
    expect(type).toBe('image/png');
    expect(Buffer.concat(chunks).equals(Buffer.from(await (await fetch(url)).arrayBuffer()))).toBe(true);
  });

  test('as a task: the task first, then the parts of its answer', async () => {
    const { task } = await images.createTask({ endpoint: Endpoint.IMAGE_GENERATIONS, request: requested });
    const read = async () => {
      const contents = [];
      for await (const { content } of images.getTask({ taskId: task?.id ?? '' })) contents.push(content);
      return contents;
    };
    await expect
      .poll(async () => (await read()).flatMap(each => (each.case === 'task' ? [each.value.status] : [])), {
        timeout: 20_000,
      })
      .toEqual([ImageTaskStatus.COMPLETED]);
    expect((await read()).at(-1)).toMatchObject({ case: 'answer', value: { part: { case: 'completed' } } });
  });
});

describe('refusals', () => {
  const catchRefusal = async (call: Promise<unknown>) => {
    const thrown: unknown = await call.catch((error: unknown) => error);
    if (!(thrown instanceof ConnectError)) throw new Error('not refused');
    const [detail] = thrown.findDetails(ErrorDetailSchema);
    return [Code[thrown.code], detail?.code, detail?.param];
  };

  test.each<[string, object, string]>([
    ['no prompt', { prompt: '' }, 'prompt'],
    ['n 11', { n: 11 }, 'n'],
    ['an invalid size', { size: '1x' }, 'size'],
    ['a size beyond the model', { size: '4000x4000' }, 'size'],
    ['guidance that is not a number', { guidanceScale: Number.NaN }, 'guidance_scale'],
    ['images in a generation', { images: [new Uint8Array(4)] }, 'images'],
    ['no model', { model: '' }, 'model'],
  ])('generate: %s', async (_, change, param) => {
    const refusal = await catchRefusal(collectParts(images.generate({ request: { ...requested, ...change } })));
    expect(refusal).toEqual(['InvalidArgument', 'validation_error', param]);
  });

  test.each<[string, object, string]>([
    ['no images', { images: [] }, 'images'],
    ['bytes that are not an image', { images: [new Uint8Array(100)] }, 'images.0'],
    ['strength 2', { strength: 2 }, 'strength'],
    ['101 steps', { steps: 101 }, 'num_inference_steps'],
    ['a size that edits do not support', { size: '700x700' }, 'size'],
  ])('edit: %s', async (_, change, param) => {
    const request = { prompt: 'x', images: [await makePng(9, 9, '#000')], ...change };
    expect(await catchRefusal(collectParts(images.edit({ request })))).toEqual([
      'InvalidArgument',
      'validation_error',
      param,
    ]);
  });

  test('a missing request, a text endpoint, an unknown task, an unknown file and a management key', async () => {
    const managing = createClient(ImageService, createGrpcTransport(options(gateway.managementKey)));
    const read = async (stream: AsyncIterable<unknown>): Promise<void> => {
      for await (const _ of stream);
    };
    expect([
      await catchRefusal(read(images.generate({}))),
      await catchRefusal(images.createTask({ endpoint: Endpoint.MESSAGES, request: requested })),
      await catchRefusal(read(images.getTask({ taskId: 'task_no' }))),
      await catchRefusal(read(images.readFile({ name: 'no.png' }))),
      await catchRefusal(read(managing.generate({ request: requested }))),
    ]).toEqual([
      ['InvalidArgument', 'validation_error', 'request'],
      ['InvalidArgument', 'validation_error', 'endpoint'],
      ['NotFound', 'not_found', 'task_id'],
      ['NotFound', 'not_found', ''],
      ['PermissionDenied', 'permission_denied', ''],
    ]);
  });

  test('a caller that cancels stops the drawing and pays nothing', async () => {
    const before = await readBalance(gateway);
    const leave = new AbortController();
    const request = { ...requested, prompt: '!sim delay_ms=60000' };
    const drawing = collectParts(images.generate({ request }, { signal: leave.signal }));
    drawing.catch(() => undefined);
    await expect.poll(() => heldBy(gateway)).toBe(40_000_000n);
    leave.abort();
    await expect(drawing).rejects.toThrow();
    await expect.poll(() => heldBy(gateway)).toBe(0n);
    expect(await readBalance(gateway)).toBe(before);
  });
});
