import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { GenerateRequestSchema } from '../../src/gen/tollgate/v1/request_pb.ts';
import { completed, started } from '../../src/generation/events.ts';
import { stop, textItem } from '../../src/generation/guard/answers.fixtures.ts';
import { Guard } from '../../src/generation/guard/guard.ts';
import { loadedTokenizer } from '../../src/generation/tokens.ts';

// This test has its own file, because the tests in `src` share a process, and some of them load the tokenizer.
test('the tokenizer is not loaded while a text has at most as many bytes as its limit has tokens; for more bytes it is waited for', async () => {
  const guard = new Guard(create(GenerateRequestSchema), { limit: 20, tolerance: 1 });
  const answer = [started({}), ...textItem(['twenty bytes in all.', ' A']), stop(), completed({})];
  const [begun, ending] = [answer.slice(0, 4), answer.slice(4)];
  expect(guard.waitsFor(begun)).toBe(undefined);
  expect(guard.push(begun)).toEqual(begun);
  expect(loadedTokenizer()).toBe(undefined);
  const wait = guard.waitsFor(ending);
  expect(wait).toBeInstanceOf(Promise);
  await wait;
  expect(guard.waitsFor(ending)).toBe(undefined);
  expect(guard.push(ending)).toEqual(ending);
});
