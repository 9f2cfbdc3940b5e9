import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { ItemSchema, ToolKind } from '../gen/tollgate/v1/content_pb.ts';
import { publicRequestId } from '../lib/ids.ts';
import { inputItemId, outputItemId, parseItemId, toRequestId, toResponseId } from './response-ids.ts';

const requestId = publicRequestId(123_456_789);
const responseId = toResponseId(requestId);

test('a response id converts to its request id and back', () => {
  expect(responseId).toMatch(/^resp_[0-9A-Za-z]{21}$/);
  expect(toRequestId(responseId)).toBe(requestId);
  expect(toRequestId('resp_short')).toBeUndefined();
  expect(toRequestId(requestId)).toBeUndefined();
});

test('an item id contains the response’s id, whether the item is input or output, and its index', () => {
  const message = create(ItemSchema, { content: { case: 'message', value: {} } });
  const call = create(ItemSchema, { content: { case: 'toolCall', value: { kind: ToolKind.CUSTOM } } });
  expect(outputItemId(responseId, message, 0)).toBe(`msg_${responseId.slice(5)}_0`);
  expect(outputItemId(responseId, call, 3)).toBe(`ctc_${responseId.slice(5)}_3`);
  expect(parseItemId(outputItemId(responseId, call, 3))).toEqual({ responseId, side: 'output', index: 3 });
  expect(parseItemId(inputItemId(responseId, message, 12))).toEqual({ responseId, side: 'input', index: 12 });
});

test('parsing an item id that the gateway did not make returns undefined', () => {
  for (const id of [
    '',
    'msg_1',
    'msg_abc',
    `msg_${responseId.slice(5)}`,
    `msg_${responseId.slice(5)}_x1`,
    responseId,
  ]) {
    expect(parseItemId(id)).toBeUndefined();
  }
});
