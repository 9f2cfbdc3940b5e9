/** Whatever an upstream sends, the stream readers of the official clients assemble what the gateway wrote. */
import { createOpenAI } from '@ai-sdk/openai';
import { streamText } from 'ai';
import fc from 'fast-check';
import OpenAI from 'openai';
import { expect, test } from 'vitest';
import type { DecodedRequest } from '../../src/codecs/codec.ts';
import { makeRequest } from '../../src/codecs/content.ts';
import { responsesCodec } from '../../src/codecs/responses/index.ts';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { ItemStatus, ToolKind } from '../../src/gen/tollgate/v1/content_pb.ts';
import { DeltaKind, type GenerationEvent } from '../../src/gen/tollgate/v1/event_pb.ts';
import { foldEvents } from '../../src/generation/fold.ts';
import { pushAll } from '../contracts/codec-suite.ts';
import { responsesAnswers, withoutPhases } from '../contracts/responses-arbitraries.ts';

const decoded: DecodedRequest = { request: makeRequest({ model: 'acme/large' }), stream: true, includeUsage: true };

const renderFrames = (events: readonly GenerationEvent[]): string => {
  const renderer = responsesCodec.renderStream(decoded);
  return pushAll(renderer, events) + renderer.end();
};

const failedFrames = (events: readonly GenerationEvent[]): string => {
  const renderer = responsesCodec.renderStream(decoded);
  const error = new GatewayError('upstream_error', 'The upstream failed.');
  return pushAll(renderer, events) + renderer.fail(error, 'req_1');
};

/** A server that answers every request with these frames. */
const answering = (frames: string) => (): Promise<Response> =>
  Promise.resolve(new Response(frames, { headers: { 'content-type': 'text/event-stream' } }));

const openai = (frames: string): OpenAI =>
  new OpenAI({ apiKey: 'k', baseURL: 'http://gateway.test/v1', maxRetries: 0, fetch: answering(frames) });

test('openai: the final response of the stream helper is the one in the last event', async () => {
  await fc.assert(
    fc.asyncProperty(responsesAnswers.map(withoutPhases), async events => {
      const stream = openai(renderFrames(events)).responses.stream({ model: 'acme/large', input: 'Hello' });
      const final = await stream.finalResponse();
      const whole = responsesCodec.renderWhole(events, decoded);
      expect(final.status).toBe(whole['status']);
      expect(final.output).toMatchObject(whole['output'] as object);
    }),
    { numRuns: 150 },
  );
});

test('openai: a stream that fails anywhere raises APIError with the code', async () => {
  await fc.assert(
    fc.asyncProperty(responsesAnswers, fc.nat(), async (events, seed) => {
      const frames = failedFrames(withoutPhases(events).slice(0, seed % events.length));
      const stream = openai(frames).responses.stream({ model: 'acme/large', input: 'Hello' });
      const failure = await stream.finalResponse().then(
        () => undefined,
        (error: unknown) => error,
      );
      expect(failure).toBeInstanceOf(OpenAI.APIError);
      expect(failure).toMatchObject({ code: 'upstream_error' });
    }),
    { numRuns: 100 },
  );
});

/** Returns the text of an answer, in order. This client returns refusals as text. */
function readText(events: readonly GenerationEvent[]): string {
  const words = new Set<DeltaKind>([DeltaKind.TEXT, DeltaKind.REFUSAL]);
  return events
    .map(({ event }) => (event.case === 'delta' && words.has(event.value.kind) ? event.value.text : ''))
    .join('')
    .toWellFormed();
}

/** Returns the names of the calls in an answer, in order. */
function readCalls(events: readonly GenerationEvent[]): string[] {
  const [choice] = foldEvents(events).choices;
  return (choice?.items ?? []).flatMap(({ content }) => (content.case === 'toolCall' ? [content.value.name] : []));
}

/** Returns whether a limit cut the input of a custom tool call. This client reports an error for it, which is better than half a command that looks complete. */
function hasCutInput(events: readonly GenerationEvent[]): boolean {
  const [choice] = foldEvents(events).choices;
  return (choice?.items ?? []).some(
    ({ status, content }) =>
      status === ItemStatus.INCOMPLETE && content.case === 'toolCall' && content.value.kind === ToolKind.CUSTOM,
  );
}

test('AI SDK: text and calls are whole, and nothing is an error', async () => {
  await fc.assert(
    fc.asyncProperty(responsesAnswers.map(withoutPhases), async events => {
      fc.pre(!hasCutInput(events));
      const settings = { apiKey: 'k', baseURL: 'http://gateway.test/v1', fetch: answering(renderFrames(events)) };
      const result = streamText({
        model: createOpenAI(settings).responses('acme/large'),
        prompt: 'Hello',
        maxRetries: 0,
        onError: () => undefined,
      });
      let text = '';
      const calls: string[] = [];
      const errors: unknown[] = [];
      for await (const part of result.stream) {
        // This client also returns searches that the upstream ran as calls.
        if (part.type === 'tool-call' && part.providerExecuted !== true) calls.push(part.toolName);
        if (part.type === 'error') errors.push(part.error);
        if (part.type === 'text-delta') text += part.text;
      }
      expect(errors).toEqual([]);
      expect(text).toBe(readText(events));
      expect(calls).toEqual(readCalls(events));
    }),
    { numRuns: 100 },
  );
});
