/** Checks the codec's output against the public schema, and against the rules of streams on which the official clients rely. Ids like SS-17 name cases of `test/translation/cases.json`. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { DecodedRequest, Json, JsonObject } from '../../src/codecs/codec.ts';
import { listIn, objectIn, textIn } from '../../src/codecs/json.ts';
import { ResponseRenderer, responsesCodec } from '../../src/codecs/responses/index.ts';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import type { GenerationEvent } from '../../src/gen/tollgate/v1/event_pb.ts';
import type { GenerateRequest } from '../../src/gen/tollgate/v1/request_pb.ts';
import { toResponseId } from '../../src/generation/response-ids.ts';
import { deviations, openJudge } from './open-responses-schema.ts';
import { responsesAnswers, responsesRequests, withoutPhases } from './responses-arbitraries.ts';

const judge = openJudge();
const requestId = `req_${'1'.repeat(21)}`;

function makeFacts(request: GenerateRequest): ConstructorParameters<typeof ResponseRenderer>[0] {
  return {
    id: toResponseId(requestId),
    model: 'acme/large',
    createdAtMs: 1_790_000_000_123,
    request,
    previousResponseId: undefined,
    store: true,
    background: request.tools.length > 1,
  };
}

interface RenderedStream {
  readonly events: JsonObject[];
  readonly renderer: ResponseRenderer;
}

/** Renders a stream of these events. */
function renderStream(request: GenerateRequest, events: readonly GenerationEvent[]): RenderedStream {
  const renderer = new ResponseRenderer(makeFacts(request));
  return { events: parseData(events.flatMap(event => renderer.push(event))), renderer };
}

const parseData = (frames: readonly { readonly data: string }[]): JsonObject[] =>
  frames.map(({ data }) => JSON.parse(data) as JsonObject);

const readTypes = (events: readonly JsonObject[]): string[] => events.map(({ type }) => textIn(type));

describe('the Open Responses schema', () => {
  test('rejects unknown events and members of the wrong type', () => {
    expect(judge.event({ type: 'response.reasoning_text.delta' })).toContain('there is no event');
    expect(judge.event({ type: 'response.output_text.delta', item_id: 'a', delta: 'x' })).toContain('sequence_number');
    const [first] = fc.sample(responsesAnswers, { seed: 1, numRuns: 1 });
    const [request] = fc.sample(responsesRequests, { seed: 1, numRuns: 1 });
    if (first === undefined || request === undefined) throw new Error('no sample');
    const whole = responsesCodec.renderWhole(first, { request, stream: false, includeUsage: true });
    expect(judge.resource(whole)).toBeUndefined();
    for (const member of ['temperature', 'truncation', 'tools', 'service_tier', 'store', 'text']) {
      expect(judge.resource({ ...whole, [member]: null }), `${member}`).toContain(`/${member}`);
    }
  });

  test('SS-17: accepts every event and every response, except for the listed deviations', () => {
    expect(Object.keys(deviations)).toHaveLength(5);
    fc.assert(
      fc.property(responsesRequests, responsesAnswers, (request, answer) => {
        const { events } = renderStream(request, answer);
        for (const event of events) expect(judge.event(event), `${textIn(event['type'])}`).toBeUndefined();
        const decoded: DecodedRequest = { request, stream: false, includeUsage: true };
        expect(judge.resource(responsesCodec.renderWhole(answer, decoded))).toBeUndefined();
      }),
      { numRuns: 200 },
    );
  });

  test('accepts every event of a response that fails or is cancelled at any point', () => {
    fc.assert(
      fc.property(responsesRequests, responsesAnswers, fc.nat(), fc.boolean(), (request, answer, seed, fails) => {
        const { events, renderer } = renderStream(request, answer.slice(0, seed % answer.length));
        const error = new GatewayError('upstream_error', 'The upstream failed.');
        const last = parseData(fails ? renderer.fail(error, requestId) : renderer.cancel());
        for (const event of [...events, ...last])
          expect(judge.event(event), `${textIn(event['type'])}`).toBeUndefined();
      }),
      { numRuns: 200 },
    );
  });
});

/** Assembles a response from only the events of its stream, as a client does, and checks that they are consistent. */
class Reader {
  readonly output: JsonObject[] = [];
  #added = 0;
  readonly open = new Map<number, { readonly id: Json; text: string; isPartOpen: boolean }>();

  read(event: JsonObject): void {
    const index = event['output_index'];
    const item = objectIn(event['item']);
    if (typeof index !== 'number') return;
    if (event['type'] === 'response.output_item.added') {
      expect(index).toBe(this.#added);
      this.#added += 1;
      this.open.set(index, { id: item?.['id'] ?? null, text: '', isPartOpen: false });
      return;
    }
    const open = this.open.get(index);
    expect(open).toBeDefined();
    if (open === undefined) return;
    if (event['type'] === 'response.output_item.done') {
      expect(item?.['id']).toBe(open.id);
      expect(open.isPartOpen).toBe(false);
      this.open.delete(index);
      this.output[index] = item ?? {};
      return;
    }
    expect(event['item_id']).toBe(open.id);
    this.#readInside(textIn(event['type']), event, open);
  }

  #readInside(type: string, event: JsonObject, open: { text: string; isPartOpen: boolean }): void {
    if (type.endsWith('part.added')) {
      expect(open.isPartOpen).toBe(false);
      open.isPartOpen = true;
      open.text = '';
    } else if (type.endsWith('part.done')) {
      open.isPartOpen = false;
    } else if (type.endsWith('.delta')) {
      open.text += textIn(event['delta']);
    } else if (type.endsWith('.done')) {
      const whole = event['text'] ?? event['refusal'] ?? event['arguments'] ?? event['input'];
      expect(whole).toBe(open.text);
    }
  }
}

const allAnswers = fc
  .tuple(responsesAnswers, fc.boolean())
  .map(([events, hasPhases]) => (hasPhases ? events : withoutPhases(events)));

describe('streams of responses', () => {
  test('a message has the phase `commentary` if a call follows in the same response, otherwise `final_answer`; until it is done it has no phase', () => {
    fc.assert(
      fc.property(responsesRequests, responsesAnswers, (request, answer) => {
        const { events } = renderStream(request, withoutPhases(answer));
        for (const event of events) {
          if (event['type'] === 'response.output_item.added') expect(event['item']).not.toHaveProperty('phase');
        }
        const output = listIn(objectIn(events.at(-1)?.['response'])?.['output']).map(item => objectIn(item) ?? {});
        const lastCall = output.findLastIndex(item => textIn(item['type']).endsWith('_call'));
        for (const [index, item] of output.entries()) {
          if (item['type'] !== 'message') continue;
          expect(item['phase']).toBe(index < lastCall ? 'commentary' : 'final_answer');
        }
      }),
      { numRuns: 200 },
    );
  });

  test('sequence numbers have no gaps, deltas add up, and the final response has exactly what was streamed', () => {
    fc.assert(
      fc.property(responsesRequests, allAnswers, (request, answer) => {
        const { events } = renderStream(request, answer);
        expect(events.map(event => event['sequence_number'])).toEqual(events.map((_, index) => index));
        const reader = new Reader();
        for (const event of events) reader.read(event);
        expect(reader.open.size).toBe(0);
        const last = objectIn(events.at(-1)?.['response']);
        expect(last?.['output']).toEqual(reader.output);
        const [first] = events;
        const { output: _, ...created } = objectIn(first?.['response']) ?? {};
        const changing = [
          'status',
          'usage',
          'completed_at',
          'incomplete_details',
          'service_tier',
          'error',
          'x_unknown',
        ];
        for (const [name, value] of Object.entries(created)) {
          if (!changing.includes(name)) expect(last?.[name], `${name}`).toEqual(value);
        }
      }),
      { numRuns: 200 },
    );
  });

  test('the frames are the same whether or not the renderer began early, and an answer that is not streamed equals the final response of the stream', () => {
    fc.assert(
      fc.property(responsesRequests, allAnswers, (request, answer) => {
        const facts = { ...makeFacts(request), background: false };
        const renderer = new ResponseRenderer(facts);
        const early = renderer.begin();
        const frames = [...early, ...answer.flatMap(event => renderer.push(event)), ...renderer.end()];
        const other = new ResponseRenderer(facts);
        expect(answer.flatMap(event => other.push(event))).toEqual(frames);
        const decoded = { request, stream: true, includeUsage: true, store: true, background: false };
        const whole = responsesCodec.renderWhole(answer, {
          ...decoded,
          previousResponseId: undefined,
        } as DecodedRequest);
        const last = objectIn((JSON.parse(frames.at(-1)?.data ?? '{}') as JsonObject)['response']);
        const withoutIds = ({ output, ...rest }: JsonObject): unknown => ({
          ...rest,
          id: '',
          created_at: 0,
          output: listIn(output).map(item => ({ ...objectIn(item), id: '' })),
        });
        expect(withoutIds(whole)).toEqual(withoutIds(last ?? {}));
      }),
      { numRuns: 100 },
    );
  });

  test('a failure closes open items, reports the error once, and ends with a failed response that has what was streamed', () => {
    fc.assert(
      fc.property(responsesRequests, allAnswers, fc.nat(), (request, answer, seed) => {
        const { events, renderer } = renderStream(request, answer.slice(0, seed % answer.length));
        const error = new GatewayError('upstream_error', 'The upstream failed.', { param: 'input' });
        const all = [...events, ...parseData(renderer.fail(error, requestId))];
        expect(all.map(event => event['sequence_number'])).toEqual(all.map((_, index) => index));
        expect(readTypes(all)[0]).toBe('response.created');
        expect(readTypes(all).slice(-2)).toEqual(['error', 'response.failed']);
        const reported = { message: 'The upstream failed.', param: 'input', code: 'upstream_error' };
        expect(all.at(-2)).toMatchObject({
          ...reported,
          error: { ...reported, type: 'upstream_error', id: requestId },
        });
        const reader = new Reader();
        for (const event of all) reader.read(event);
        expect(reader.open.size).toBe(0);
        const failed = objectIn(all.at(-1)?.['response']);
        expect(failed).toMatchObject({
          status: 'failed',
          error: { code: 'upstream_error', message: 'The upstream failed.' },
          incomplete_details: null,
          completed_at: null,
        });
        expect(failed?.['output']).toEqual(reader.output);
      }),
      { numRuns: 200 },
    );
  });
});
