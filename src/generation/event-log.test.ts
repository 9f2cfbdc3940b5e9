import { create } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ItemSchema, PartSchema, Role } from '../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, FinishReason, type GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import { EventLog } from './event-log.ts';
import { delta, finished, itemClosed, itemOpened, partClosed, partOpened, started } from './events.ts';
import { foldEvents } from './fold.ts';

const message = create(ItemSchema, { content: { case: 'message', value: { role: Role.ASSISTANT } } });
const part = create(PartSchema, { content: { case: 'text', value: {} } });

const token = (text: string) => ({
  $typeName: 'tollgate.v1.TokenLogprob' as const,
  token: text,
  logprob: -1,
  utf8: new Uint8Array(),
  top: [],
});

function makeAnswer(texts: readonly string[]): GenerationEvent[] {
  return [
    started({}),
    itemOpened(0, 0, message),
    partOpened(0, [0, 0], part),
    ...texts.map(text => delta(0, [0, 0], { kind: DeltaKind.TEXT, text, logprobs: [token(text)] })),
    partClosed(0, [0, 0]),
    itemClosed(0, 0),
    finished(0, FinishReason.STOP),
  ];
}

function toLog(events: readonly GenerationEvent[]): GenerationEvent[] {
  const log = new EventLog();
  for (const event of events) log.add(event);
  return log.read();
}

test('all deltas of one part are merged into one, the log folds to the same answer, and the added events are not modified', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ maxLength: 3 }), { maxLength: 600 }), texts => {
      const events = makeAnswer(texts);
      const before = structuredClone(events);
      const kept = toLog(events);
      expect(kept.filter(({ event }) => event.case === 'delta')).toHaveLength(Math.min(1, texts.length));
      expect(foldEvents(kept)).toEqual(foldEvents(events));
      expect(events).toEqual(before);
    }),
  );
});

test('deltas of another item, part or kind stay separate and in order; deltas of one choice are merged even if deltas of other choices come between them', () => {
  const at = (choice: number, item: number, place: number, kind: DeltaKind) =>
    delta(choice, [item, place], { kind, text: 'x' });
  const events = [
    at(0, 0, 0, DeltaKind.TEXT),
    at(1, 0, 0, DeltaKind.TEXT),
    at(1, 1, 0, DeltaKind.TEXT),
    at(1, 1, 1, DeltaKind.TEXT),
    at(1, 1, 1, DeltaKind.REFUSAL),
    at(0, 0, 0, DeltaKind.TEXT),
  ];
  const [first, ...others] = events.slice(0, -1);
  const merged = delta(0, [0, 0], { kind: DeltaKind.TEXT, text: 'xx' });
  expect(first).toEqual(events.at(-1));
  expect(toLog(events)).toEqual([merged, ...others]);
});

test('a read does not contain events that are added after it', () => {
  const log = new EventLog();
  log.add(delta(0, [0, 0], { kind: DeltaKind.TEXT, text: 'a' }));
  const first = log.read();
  log.add(delta(0, [0, 0], { kind: DeltaKind.TEXT, text: 'b' }));
  expect(first).toEqual([delta(0, [0, 0], { kind: DeltaKind.TEXT, text: 'a' })]);
  expect(log.read()).toEqual([
    delta(0, [0, 0], { kind: DeltaKind.TEXT, text: 'a' }),
    delta(0, [0, 0], { kind: DeltaKind.TEXT, text: 'b' }),
  ]);
});
