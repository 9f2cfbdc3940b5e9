/**
 * Tests that every codec must pass: the result does not depend on how the bytes are cut, unknown members and
 * events change nothing else, an answer without its end mark is never whole, and decoding is the inverse of encoding.
 */
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type {
  ClientCodec,
  DecodedRequest,
  EncodedRequest,
  Json,
  JsonObject,
  StreamRenderer,
  UpstreamCodec,
} from '../../src/codecs/codec.ts';
import { makeRequest } from '../../src/codecs/content.ts';
import type { Extension, ExtensionScope, GenerationEvent } from '../../src/gen/tollgate/v1/event_pb.ts';
import type { GenerateRequest } from '../../src/gen/tollgate/v1/request_pb.ts';
import { foldEvents } from '../../src/generation/fold.ts';
import { LastFinish } from '../../src/generation/guard/last-finish.ts';
import { Serialiser } from '../../src/generation/guard/serialise.ts';
import { Validator } from '../../src/generation/guard/validate.ts';
import { UpstreamFailure } from '../../src/generation/upstream.ts';
import { SseReader } from '../../src/lib/sse.ts';

/** A codec for upstreams, and the data for its tests. */
export interface UpstreamUnderTest {
  readonly name: string;
  readonly codec: UpstreamCodec;
  /** The provider whose answers are parsed. */
  readonly provider: string;
  /** Complete streams of the protocol, as bytes; at least one has text, and calls if the protocol has them. */
  readonly goldens: Readonly<Record<string, Buffer>>;
  /** Frames of unknown types, and frames that only keep the stream alive. */
  readonly strangeFrames: readonly string[];
  /** How many frames at the end of a golden stream may be missing while the answer still counts as whole. */
  readonly optionalFrames: number;
  readonly requests: fc.Arbitrary<GenerateRequest>;
}

/** A codec for clients, and the data for its tests. */
export interface ClientUnderTest {
  readonly name: string;
  readonly codec: ClientCodec;
  readonly answers: fc.Arbitrary<GenerationEvent[]>;
}

/** A codec for both, and the data for its tests. */
export type CodecUnderTest = UpstreamUnderTest & ClientUnderTest;

/** Parses a stream in the given chunks. Returns the events as the core gets them. */
export function parseChunks(codec: UpstreamCodec, provider: string, chunks: readonly Uint8Array[]): GenerationEvent[] {
  const reader = new SseReader(1_000_000);
  const parser = codec.parseStream(provider);
  const messages = [...chunks.flatMap(chunk => reader.push(chunk)), ...reader.end()];
  const parsed: GenerationEvent[] = [];
  for (const message of messages) parser.push(message, parsed);
  parser.end(parsed);
  const events: GenerationEvent[] = [];
  const validator = new Validator(events);
  const first = new LastFinish(new Serialiser(validator));
  for (const event of parsed) first.push(event);
  validator.end();
  return events;
}

/** Renders events, and returns all frames of the stream. */
export function renderFrames(
  codec: ClientCodec,
  events: readonly GenerationEvent[],
  decoded: DecodedRequest,
): string[] {
  const renderer = codec.renderStream(decoded);
  return splitFrames(pushAll(renderer, events) + renderer.end());
}

/** Pushes events to a renderer, and returns its output as one text. */
export function pushAll(renderer: StreamRenderer, events: readonly GenerationEvent[]): string {
  return events.map(event => renderer.push(event)).join('');
}

/** A streaming client that requests everything that the protocol has. */
export const wantsEverything: DecodedRequest = {
  request: makeRequest({ candidates: 3 }),
  stream: true,
  includeUsage: true,
};

/** Returns the content of an answer, without what only the gateway knows and what a protocol can't express. */
export function gist(events: readonly GenerationEvent[]): unknown {
  const { started, choices, completed } = foldEvents(events);
  return {
    fingerprint: started?.systemFingerprint,
    choices: choices.map(({ items, finished, extensions }) => ({ items, finished, extensions: byScope(extensions) })),
    usage: completed?.usage,
    tier: completed?.serviceTier,
  };
}

/** Sorts extensions by their scope, because within a frame their order means nothing. */
function byScope(extensions: readonly Extension[]): { scope: ExtensionScope; members: Json }[] {
  const members = extensions.map(({ scope, extra }) => ({ scope, members: JSON.parse(extra?.json ?? '{}') as Json }));
  return members.toSorted((a, b) => a.scope - b.scope);
}

/** Splits a stream into its frames, each of which ends with a blank line. */
export function splitFrames(stream: Buffer | string): string[] {
  return stream
    .toString()
    .split(/(?<=\n\n)/)
    .filter(frame => frame !== '');
}

function withStrangeMember(frame: string): string {
  return frame.replace(/^(data: )(\{.*)$/m, (_, prefix: string, json: string) => {
    return prefix + JSON.stringify({ ...(JSON.parse(json) as JsonObject), x_strange: { a: [1, null] } });
  });
}

/** Returns the events without extensions, which only clients of the same protocol get. */
const withoutExtensions = (events: readonly GenerationEvent[]): GenerationEvent[] =>
  events.filter(({ event }) => event.case !== 'extension').map(withoutExtra);

function withoutExtra(whole: GenerationEvent): GenerationEvent {
  const { event } = whole;
  if (event.case !== 'started' && event.case !== 'partClosed' && event.case !== 'itemClosed') return whole;
  const { extra: _, ...value } = event.value;
  return { ...whole, event: { case: event.case, value } as GenerationEvent['event'] };
}

/** Registers the tests of a codec for upstreams only. */
export function upstreamSuite(under: UpstreamUnderTest): void {
  const { codec, provider, goldens } = under;
  const parse = (...chunks: Uint8Array[]): GenerationEvent[] => parseChunks(codec, provider, chunks);

  describe(`${under.name}: streams of upstreams`, () => {
    test.each(Object.entries(goldens))('%s: the same events wherever the bytes are cut in two', (_, bytes) => {
      const whole = parse(bytes);
      for (let at = 0; at <= bytes.length; at += 1) {
        const cut = parse(bytes.subarray(0, at), bytes.subarray(at));
        // `expect` compares thousands of streams ten times as slowly, so it only shows the difference.
        if (!isDeepStrictEqual(cut, whole)) expect(cut, `cut at ${at}`).toStrictEqual(whole);
      }
    });

    test.each(Object.entries(goldens))(
      '%s: the same events byte by byte, with CRLF and with a byte order mark',
      (_, bytes) => {
        const whole = parse(bytes);
        expect(parse(...[...bytes].map(byte => Uint8Array.of(byte)))).toEqual(whole);
        expect(parse(Buffer.from(`\uFEFF${bytes.toString().replaceAll('\n', '\r\n')}`))).toEqual(whole);
      },
    );

    test.each(Object.entries(goldens))('%s: an unknown member changes nothing else', (_, bytes) => {
      const strange = Buffer.from(splitFrames(bytes).map(withStrangeMember).join(''));
      expect(strange.toString()).toContain('x_strange');
      expect(withoutExtensions(parse(strange))).toEqual(withoutExtensions(parse(bytes)));
    });

    test.each(Object.entries(goldens))('%s: an unknown frame changes nothing else, wherever it is', (_, bytes) => {
      const whole = parse(bytes);
      const frames = splitFrames(bytes);
      for (let at = 0; at <= frames.length; at += 1) {
        const strange = [...frames.slice(0, at), ...under.strangeFrames, ...frames.slice(at)].join('');
        expect(withoutExtensions(parse(Buffer.from(strange))), `before frame ${at}`).toEqual(withoutExtensions(whole));
      }
    });

    test.each(Object.entries(goldens))(
      '%s: a stream that ends too early is reported as truncated, never as finished',
      (_, bytes) => {
        const frames = splitFrames(bytes);
        for (let size = 0; size < frames.length - under.optionalFrames; size += 1) {
          const cut = Buffer.from(frames.slice(0, size).join(''));
          expect(
            catchFailure(() => parse(cut)),
            `after ${size} frames`,
          ).toBe('truncated');
        }
      },
    );

    test('the same request gives the same bytes', () => {
      fc.assert(
        fc.property(under.requests, request => {
          expect(written(encode(codec, structuredClone(request)))).toBe(written(encode(codec, request)));
        }),
      );
    });
  });
}

/** Registers the tests of a codec for clients only. */
export function clientSuite(under: ClientUnderTest): void {
  describe(`${under.name}: streams of clients`, () => {
    test('a stream consists of whole frames of well-formed text', () => {
      fc.assert(
        fc.property(under.answers, events => {
          const frames = renderFrames(under.codec, events, wantsEverything);
          expect(frames.length).toBeGreaterThan(0);
          for (const frame of frames) {
            expect(frame).toMatch(/^(event: [^\n]+\n)?data: [^\n]+\n\n$/);
            expect(frame.isWellFormed() && !/\\ud[89a-f]/i.test(frame)).toBe(true);
          }
        }),
      );
    });

    test('a stream without `completed` can’t be ended', () => {
      fc.assert(
        fc.property(under.answers, fc.nat(), (events, seed) => {
          const renderer = under.codec.renderStream(wantsEverything);
          pushAll(renderer, events.slice(0, seed % events.length));
          expect(() => renderer.end()).toThrow();
        }),
      );
    });
  });
}

/** Registers the tests of a codec for clients and upstreams. */
export function codecSuite(under: CodecUnderTest): void {
  const { codec, provider } = under;
  const parse = (...chunks: Uint8Array[]): GenerationEvent[] => parseChunks(codec, provider, chunks);
  upstreamSuite(under);
  clientSuite(under);

  describe(`${under.name}: laws`, () => {
    test('parse(render(x)) = x for streams', () => {
      fc.assert(
        fc.property(under.answers, events => {
          const bytes = Buffer.from(renderFrames(codec, events, wantsEverything).join(''));
          expect(gist(parse(bytes))).toEqual(gist(events));
        }),
        { numRuns: 300 },
      );
    });

    test('keep-alives between the frames of a stream change nothing', () => {
      fc.assert(
        fc.property(under.answers, events => {
          const renderer = codec.renderStream(wantsEverything);
          const frames = splitFrames(pushAll(renderer, events) + renderer.end());
          const alive = Buffer.from(renderer.keepAlive + frames.join(renderer.keepAlive));
          expect(gist(parse(alive))).toEqual(gist(events));
        }),
      );
    });

    test('a stream without `completed` has no end mark', () => {
      fc.assert(
        fc.property(under.answers, fc.nat(), (events, seed) => {
          const renderer = codec.renderStream(wantsEverything);
          const size = seed % events.length;
          const frames = pushAll(renderer, events.slice(0, size));
          expect(catchFailure(() => parse(Buffer.from(frames)))).toBe('truncated');
        }),
      );
    });

    test('decode(encode(x)) = x', () => {
      fc.assert(
        fc.property(under.requests, request => {
          const encoded = encode(codec, request);
          expect(encoded.dropped).toEqual([]);
          const { request: decoded } = decode(codec, encoded.body);
          expect(decoded.source?.unknownFields).toEqual([]);
          delete decoded.source;
          expect(decoded).toEqual(request);
        }),
        { numRuns: 300 },
      );
    });

    test('a request gives the same bytes, whether its body is built or the client’s body is changed', () => {
      fc.assert(
        fc.property(under.requests, request => {
          const built = written(encode(codec, request));
          const { request: decoded } = decode(codec, JSON.parse(built) as JsonObject);
          expect(written(encode(codec, decoded))).toBe(built);
        }),
      );
    });
  });
}

function encode(codec: UpstreamCodec, request: GenerateRequest): ReturnType<UpstreamCodec['encodeRequest']> {
  const { model, maxOutputTokens } = request;
  return codec.encodeRequest({ request, model, maxOutputTokens, stream: request.delivery === 1 });
}

function decode(codec: ClientCodec, body: JsonObject): DecodedRequest {
  const raw = Buffer.from(JSON.stringify(body));
  return codec.decodeRequest({ body: JSON.parse(raw.toString()) as unknown, raw, headers: {} });
}

function catchFailure(act: () => unknown): string {
  try {
    act();
  } catch (thrown) {
    if (thrown instanceof UpstreamFailure) return thrown.kind;
    throw thrown;
  }
  return 'none';
}

/** Returns the text of a body with its exact numbers restored. */
function written({ body, restore }: EncodedRequest): string {
  const text = JSON.stringify(body);
  return restore === undefined ? text : restore(text);
}
