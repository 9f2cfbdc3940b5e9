import { describe, expect, test } from 'vitest';
import { type Item, ItemStatus, type Part, Phase, Role } from '../../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { completed, delta, finished, itemClosed, itemOpened, partClosed, partOpened, started } from '../events.ts';
import { UpstreamFailure } from '../upstream.ts';
import { Validator } from './validate.ts';

const message: Item = {
  $typeName: 'tollgate.v1.Item',
  id: '',
  status: ItemStatus.IN_PROGRESS,
  turn: 0,
  content: {
    case: 'message',
    value: { $typeName: 'tollgate.v1.Message', role: Role.ASSISTANT, name: '', parts: [], phase: Phase.UNSPECIFIED },
  },
};
const part: Part = {
  $typeName: 'tollgate.v1.Part',
  content: { case: 'text', value: { $typeName: 'tollgate.v1.TextPart', text: '', annotations: [], logprobs: [] } },
};
const text = delta(0, [0, 0], { kind: DeltaKind.TEXT, text: 'hi' });
const open = [started({}), itemOpened(0, 0, message), partOpened(0, [0, 0], part), text];
const whole = [...open, partClosed(0, [0, 0]), itemClosed(0, 0), finished(0, FinishReason.STOP), completed({})];

function findFailureKind(events: readonly GenerationEvent[]): string | undefined {
  const validator = new Validator([]);
  try {
    for (const event of events) validator.push(event);
    validator.end();
    return undefined;
  } catch (thrown) {
    return thrown instanceof UpstreamFailure ? thrown.kind : String(thrown);
  }
}

describe('Validator', () => {
  test('a stream in a valid order passes unchanged', () => {
    const out: GenerationEvent[] = [];
    const validator = new Validator(out);
    for (const event of whole) validator.push(event);
    validator.end();
    expect(out).toEqual(whole);
  });

  test('a stream that ends anywhere before completed is truncated, never a normal finish', () => {
    for (let length = 0; length < whole.length; length += 1) {
      expect(findFailureKind(whole.slice(0, length))).toBe('truncated');
    }
  });

  test('an answer without any one of its events before the end is malformed', () => {
    for (const left of [0, 1, 2, 4, 5, 6]) {
      expect([left, findFailureKind(whole.filter((_, index) => index !== left))]).toEqual([left, 'malformed']);
    }
  });

  test.each([
    ['an event before started', [text]],
    ['started twice', [started({}), started({})]],
    ['two open items', [...open.slice(0, 2), itemOpened(0, 1, message)]],
    ['an item whose number is not the next one', [started({}), itemOpened(0, 1, message)]],
    ['two open parts', [...open, partOpened(0, [0, 1], part)]],
    ['a delta of another kind', [...open.slice(0, 3), delta(0, [0, 0], { kind: DeltaKind.REFUSAL, text: 'no' })]],
    ['arguments outside a call', [...open.slice(0, 2), delta(0, [0, 0], { kind: DeltaKind.ARGUMENTS, text: '{' })]],
    ['finished with an open item', [...open.slice(0, 2), finished(0, FinishReason.STOP)]],
    ['two finishes', [...whole.slice(0, 7), finished(0, FinishReason.STOP)]],
    ['something after completed', [...whole, text]],
    ['completed without a finish', [started({}), completed({})]],
    ['completed before another choice finished', [...whole.slice(0, 7), itemOpened(1, 0, message), completed({})]],
  ])('%s is malformed', (_, events) => {
    expect(findFailureKind(events)).toBe('malformed');
  });
});
