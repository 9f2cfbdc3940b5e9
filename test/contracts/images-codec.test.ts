/** The laws of the Images codec: a gateway decodes exactly what was encoded for an upstream, and an upstream client parses exactly what was rendered for a client. */
import { create } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decodeEdit, decodeEditForm, decodeGeneration } from '../../src/codecs/images/decode-request.ts';
import { encodeEdit, encodeForm, encodeGeneration } from '../../src/codecs/images/encode-request.ts';
import { parseAnswer } from '../../src/codecs/images/parse-answer.ts';
import { parseError } from '../../src/codecs/openai-error.ts';
import { ImageAnswerFold } from '../../src/codecs/images/render-answer.ts';
import {
  type ImageAnswer,
  ImageAnswerSchema,
  ImageForm,
  type ImageRequest,
  ImageRequestSchema,
} from '../../src/gen/tollgate/v1/image_pb.ts';
import { UpstreamFailure } from '../../src/generation/upstream.ts';
import { anyCharacters } from '../../src/lib/any-text.fixtures.ts';

const word = anyCharacters({ minLength: 1, maxLength: 20 }).filter(text => text.isWellFormed());
const size = fc
  .tuple(fc.integer({ min: 1, max: 99_999 }), fc.integer({ min: 1, max: 99_999 }))
  .map(sides => sides.join('x'));
const ratio = fc.integer({ min: 0, max: 1_000 }).map(thousandths => thousandths / 1_000);
const bytes = fc.uint8Array({ minLength: 1, maxLength: 40 });
const optional = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined });

function makeRequest(values: Record<string, unknown>): ImageRequest {
  const said = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
  return create(ImageRequestSchema, { ...said, form: ImageForm.BYTES });
}

const common = {
  model: word,
  prompt: word,
  n: optional(fc.integer({ min: 1, max: 10 })),
  quality: fc.oneof(fc.constant(''), word),
  seed: optional(fc.maxSafeInteger().map(BigInt)),
  negativePrompt: fc.oneof(fc.constant(''), word),
};
const extra = fc.constantFrom('', '{"style":"vivid","output_compression":50}', '{"background":"transparent"}');
const generation = fc
  .record({
    ...common,
    size: fc.oneof(fc.constant(''), size),
    steps: optional(fc.integer({ min: 1, max: 4_294_967_295 })),
    guidanceScale: optional(fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e6, max: 1e6 })),
    extraJson: extra,
  })
  .map(makeRequest);
const edit = fc
  .record({
    ...common,
    size: fc.constantFrom('', '256x256', '512x512', '1024x1024'),
    steps: optional(fc.integer({ min: 1, max: 100 })),
    strength: optional(ratio),
    guidanceScale: optional(ratio.map(value => value * 20)),
    kontextMaxMode: fc.oneof(fc.constant(''), word),
    images: fc.array(bytes, { minLength: 1, maxLength: 4 }),
    mask: optional(bytes),
    extraJson: fc.constantFrom('', '{"style":"vivid"}'),
  })
  .map(makeRequest);

describe('requests', () => {
  test('a generation is decoded as it was encoded', () => {
    fc.assert(
      fc.property(generation, request => {
        const body: unknown = JSON.parse(JSON.stringify(encodeGeneration({ request, model: request.model })));
        const decoded = decodeGeneration(body);
        expect(decoded.isAsync).toBe(false);
        // In JSON, -0 is 0.
        if (request.guidanceScale === 0) request.guidanceScale = 0;
        expect(decoded.request).toEqual(request);
      }),
    );
  });

  test('an edit is decoded from its form as it was encoded', () => {
    fc.assert(
      fc.property(edit, request => {
        expect(decodeEditForm(encodeEdit({ request, model: request.model })).request).toEqual(request);
      }),
    );
  });

  test('an edit as JSON is the same as its form', () => {
    fc.assert(
      fc.property(edit, request => {
        const parts = encodeEdit({ request, model: request.model });
        const fields = parts.filter(({ value }) => typeof value === 'string');
        const numbers = new Set(['n', 'seed', 'strength', 'guidance_scale', 'num_inference_steps']);
        const body = {
          ...Object.fromEntries(fields.map(({ name, value }) => [name, numbers.has(name) ? Number(value) : value])),
          images: request.images.map(file => Buffer.from(file).toString('base64')),
          ...(request.mask === undefined ? {} : { mask: Buffer.from(request.mask).toString('base64') }),
        };
        expect(decodeEdit(body).request).toMatchObject({
          prompt: request.prompt,
          images: request.images.map(file => Buffer.from(file)),
        });
        expect(Buffer.from(decodeEdit(body).request.mask ?? []).equals(Buffer.from(request.mask ?? []))).toBe(true);
      }),
    );
  });

  test('another parser reads the same parts from a form', async () => {
    await fc.assert(
      fc.asyncProperty(edit, async request => {
        const parts = encodeEdit({ request, model: request.model });
        const body = encodeForm(parts, 'a-boundary-that-no-value-holds');
        const form = await new Response(new Uint8Array(body), {
          headers: { 'content-type': 'multipart/form-data; boundary=a-boundary-that-no-value-holds' },
        }).formData();
        const read = await Promise.all(
          [...form].map(async ([name, value]) => ({
            name,
            value: typeof value === 'string' ? value : new Uint8Array(await value.arrayBuffer()),
          })),
        );
        expect(read).toEqual(parts.map(({ name, value }) => ({ name, value })));
      }),
      { numRuns: 50 },
    );
  });

  test('the same request gives the same bytes', () => {
    fc.assert(
      fc.property(edit, request => {
        const encode = (): Buffer => encodeForm(encodeEdit({ request, model: 'm' }), 'b');
        expect(encode().equals(encode())).toBe(true);
      }),
    );
  });
});

const part = (value: ImageAnswer['part']): ImageAnswer => create(ImageAnswerSchema, { part: value });
const drawnImage = fc.record({ content: bytes, revisedPrompt: word, extraJson: fc.constantFrom('', '{"b":1}') });

describe('answers', () => {
  test('images are parsed as they were rendered, in pieces or whole', () => {
    fc.assert(
      fc.property(
        fc.array(drawnImage, { minLength: 1, maxLength: 10 }),
        fc.constantFrom('', '{"usage":{"total_tokens":1}}'),
        fc.integer({ min: 1, max: 41 }),
        (images, extraJson, piece) => {
          const fold = new ImageAnswerFold();
          const started = { requestId: '', model: '', createdAtMs: 1_234n, limits: [], route: '', extraJson };
          fold.push(part({ case: 'started', value: { $typeName: 'tollgate.v1.ImagesStarted', ...started } }));
          for (const { content, ...facts } of images) {
            const head = { mediaType: 'image/png', size: BigInt(content.length), url: '', ...facts };
            fold.push(part({ case: 'image', value: { $typeName: 'tollgate.v1.ImageHead', ...head } }));
            for (let at = 0; at < content.length; at += piece) {
              fold.push(part({ case: 'chunk', value: content.subarray(at, at + piece) }));
            }
          }
          expect(() => fold.render()).toThrow();
          fold.push(part({ case: 'completed', value: { $typeName: 'tollgate.v1.ImagesCompleted', costNanoUsd: 1n } }));
          expect(fold.render()).toMatchObject({ created: 1 });
          const parsed = parseAnswer(JSON.stringify(fold.render()));
          expect(parsed.extraJson).toBe(extraJson);
          expect(parsed.images).toEqual(
            images.map(({ content, ...facts }) => ({
              source: { kind: 'bytes', bytes: Buffer.from(content) },
              ...facts,
            })),
          );
        },
      ),
    );
  });

  test('any answer of an upstream is parsed or reported as malformed, and never causes an exception', () => {
    fc.assert(
      fc.property(fc.oneof(fc.json(), fc.string()), text => {
        try {
          parseAnswer(text);
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(UpstreamFailure);
        }
        parseError(400, text);
      }),
    );
  });

  test.each([
    ['{"error":{"message":"m","param":"p"}}', { message: 'm', param: 'p' }],
    ['{"error":"m"}', { message: 'm' }],
    ['{"detail":"m"}', { message: 'm' }],
    ['plain words', { message: 'plain words' }],
    ['<html></html>', {}],
    ['', {}],
    ['null', {}],
  ])('an error body %s', (body, said) => {
    expect(parseError(500, body)).toEqual(said);
  });
});
