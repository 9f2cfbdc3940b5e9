import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { chatCodec } from '../codecs/chat/index.ts';
import type { UpstreamCodec } from '../codecs/codec.ts';
import type { GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { AnswerReader } from './answer-reader.ts';
import type { ReadBatch } from './http-attempt.ts';

const golden = readFileSync(`${import.meta.dirname}/../../test/upstreams/fixtures/chat_completed.sse`);
const completion = Buffer.from(
  JSON.stringify({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1_790_000_000,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hello 😀' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 },
  }),
);

function makeReader(contentType: string, candidates = 1, codec: UpstreamCodec = chatCodec): AnswerReader {
  const reader = new AnswerReader({ codec, provider: 'local', eventBytesMax: 10_000 }, candidates);
  reader.begin(contentType);
  return reader;
}

/** Returns the events of the chunks, and the kind of the failure with which they ended. */
function read(
  chunks: readonly Buffer[],
  contentType = 'text/event-stream',
): { events: GenerationEvent[]; failure?: string } {
  const reader = makeReader(contentType);
  const events: GenerationEvent[] = [];
  const take = (batch: ReadBatch<GenerationEvent>): string | undefined => {
    events.push(...batch.events);
    return batch.failure instanceof UpstreamFailure ? batch.failure.kind : batch.failure?.message;
  };
  for (const chunk of chunks) {
    const failure = take(reader.push(chunk));
    if (failure !== undefined) return { events, failure };
  }
  const failure = reader.completed ? undefined : take(reader.end());
  return failure === undefined ? { events } : { events, failure };
}

const whole = read([golden]);

test('the sample stream is read correctly', () => {
  const cases = whole.events.map(({ event }) => event.case);
  expect([cases[0], cases.at(-1), whole.failure]).toEqual(['started', 'completed', undefined]);
  expect(cases.filter(each => each === 'finished' || each === 'completed')).toEqual(['finished', 'completed']);
});

test('the same stream split in two at any byte gives the same events', () => {
  for (let cut = 1; cut < golden.length; cut += 1) {
    expect(read([golden.subarray(0, cut), golden.subarray(cut)]), `cut at ${cut}`).toEqual(whole);
  }
});

test('however a stream or an answer that is not streamed is split into chunks, it gives the same events', () => {
  const folded = read([completion], 'application/json');
  expect(folded.events.at(-1)?.event.case).toBe('completed');
  fc.assert(
    fc.property(fc.array(fc.nat(golden.length), { maxLength: 12 }), fc.boolean(), (places, isJson) => {
      const bytes = isJson ? completion : golden;
      const cuts = [
        0,
        ...places.map(place => place % bytes.length).toSorted((one, other) => one - other),
        bytes.length,
      ];
      const chunks = cuts.slice(1).map((to, index) => bytes.subarray(cuts[index], to));
      expect(read(chunks, isJson ? 'application/json' : 'text/event-stream')).toEqual(isJson ? folded : whole);
    }),
  );
});

test('a stream that ends at any byte is truncated unless its finish has come', () => {
  const finish = golden.indexOf('"finish_reason":"tool_calls"');
  const frameEnd = golden.indexOf('\n\n', finish);
  for (let end = 0; end <= golden.length; end += 1) {
    const { events, failure } = read([golden.subarray(0, end)]);
    const last = events.at(-1)?.event.case;
    if (end < frameEnd) expect([end, failure, last === 'completed']).toEqual([end, 'truncated', false]);
    else if (end > frameEnd + 1 && failure === undefined) expect([end, last]).toEqual([end, 'completed']);
  }
});

test('output before a failure in the same chunk is kept', () => {
  const reader = makeReader('text/event-stream');
  const chunk = Buffer.concat([golden.subarray(0, 900), Buffer.from('\n\ndata: {nonsense\n\n')]);
  const { events, failure } = reader.push(chunk);
  expect(events[0]?.event.case).toBe('started');
  expect(failure).toBeInstanceOf(UpstreamFailure);
});

test('of an event that has a failure nothing is kept, of those before it everything', () => {
  const frame = (content: string, more: string): Buffer =>
    Buffer.from(`data: {"choices":[{"index":0,"delta":{"content":"${content}"}}${more}]}\n\n`);
  const failed = frame('lost', ',{"index":1,"error":{"message":"no"}}');
  const { events, failure } = makeReader('text/event-stream').push(Buffer.concat([frame('kept', ''), failed]));
  expect(failure).toMatchObject({ kind: 'reported' });
  expect(events.map(({ event }) => event.case)).toEqual(['started', 'itemOpened', 'partOpened', 'delta']);
});

test('an answer is finished when every requested choice has ended, and complete at its formal end', () => {
  const upToFinish = golden.subarray(0, golden.indexOf('\n\n', golden.indexOf('"finish_reason":"tool_calls"')) + 2);
  const [one, two] = [makeReader('text/event-stream'), makeReader('text/event-stream', 2)];
  one.push(upToFinish);
  two.push(upToFinish);
  expect([one.finished, one.completed, two.finished]).toEqual([true, false, false]);
  one.push(golden.subarray(upToFinish.length));
  expect(one.completed).toBe(true);
});

test('an event that is too large, or an answer that is too large, is malformed', () => {
  const pad = Buffer.alloc(10_001, 0x78);
  expect(read([Buffer.from('data: '), pad]).failure).toBe('malformed');
  expect(read([Buffer.from('{"x":"'), pad], 'application/json').failure).toBe('malformed');
  expect(read([Buffer.alloc(10_001, 0x20)]).failure).toBe('malformed');
});

test('an end without a terminator is truncated, even if the codec does not complain', () => {
  const silent = { ...chatCodec, parseStream: () => ({ push: () => undefined, end: () => undefined }) };
  const reader = makeReader('text/event-stream', 1, silent);
  reader.push(golden);
  expect(reader.end().failure).toMatchObject({ kind: 'truncated' });
});
