import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { ItemSchema, ToolKind } from '../gen/tollgate/v1/content_pb.ts';
import { publicRequestId } from '../lib/ids.ts';
import { inputItemId, outputItemId, placeOfItem, requestIdOf, responseIdOf } from './response-ids.ts';

const requestId = publicRequestId(123_456_789);
const responseId = responseIdOf(requestId);

test('a response and its request name each other', () => {
  expect(responseId).toMatch(/^resp_[0-9A-Za-z]{21}$/);
  expect(requestIdOf(responseId)).toBe(requestId);
  expect(requestIdOf('resp_short')).toBeUndefined();
  expect(requestIdOf(requestId)).toBeUndefined();
});

test('an item’s id says where it is', () => {
  const message = create(ItemSchema, { content: { case: 'message', value: {} } });
  const call = create(ItemSchema, { content: { case: 'toolCall', value: { kind: ToolKind.CUSTOM } } });
  expect(outputItemId(responseId, message, 0)).toBe(`msg_${responseId.slice(5)}_0`);
  expect(outputItemId(responseId, call, 3)).toBe(`ctc_${responseId.slice(5)}_3`);
  expect(placeOfItem(outputItemId(responseId, call, 3))).toEqual({ responseId, side: 'output', index: 3 });
  expect(placeOfItem(inputItemId(responseId, message, 12))).toEqual({ responseId, side: 'input', index: 12 });
});

test('an id that the gateway did not make names no place', () => {
  for (const id of [
    '',
    'msg_1',
    'msg_abc',
    `msg_${responseId.slice(5)}`,
    `msg_${responseId.slice(5)}_x1`,
    responseId,
  ]) {
    expect(placeOfItem(id)).toBeUndefined();
  }
});
