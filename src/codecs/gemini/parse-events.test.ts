import { expect, test } from 'vitest';
import { GeminiStreamParser } from './parse-events.ts';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';

test('the arguments of a call keep all digits of their numbers', () => {
  const events: GenerationEvent[] = [];
  const part = '{"functionCall":{"name":"f","args":{"id":9007199254740993,"at":0.30000000000000000001}}}';
  const data = `{"candidates":[{"content":{"parts":[${part}]},"finishReason":"STOP"}],"usageMetadata":{}}`;
  new GeminiStreamParser('google').push({ event: '', data }, events);
  const texts = events.flatMap(({ event }) => (event.case === 'delta' ? [event.value.text] : []));
  expect(texts).toEqual(['{"id":9007199254740993,"at":0.30000000000000000001}']);
});
