import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Item, ItemStatus, Phase, Protocol, Role, ToolKind } from '../gen/tollgate/v1/content_pb.ts';
import {
  DeltaKind,
  ExtensionScope,
  FinishReason,
  type GenerationEvent,
  type Usage,
} from '../gen/tollgate/v1/event_pb.ts';
import {
  annotationAdded,
  completed,
  delta,
  extension,
  finished,
  itemClosed,
  itemOpened,
  opaqueAdded,
  partClosed,
  partOpened,
  started,
  usageReported,
} from './events.ts';
import { foldEvents } from './fold.ts';

const item = (content: Item['content']): Item => ({
  $typeName: 'tollgate.v1.Item',
  id: 'x_1',
  status: ItemStatus.IN_PROGRESS,
  turn: 0,
  content,
});
const message = (): Item =>
  item({
    case: 'message',
    value: { $typeName: 'tollgate.v1.Message', role: Role.ASSISTANT, name: '', parts: [], phase: Phase.UNSPECIFIED },
  });
const call = (): Item =>
  item({
    case: 'toolCall',
    value: { $typeName: 'tollgate.v1.ToolCall', callId: 'c', name: 'f', kind: ToolKind.FUNCTION, arguments: '' },
  });
const reasoning = (): Item =>
  item({ case: 'reasoning', value: { $typeName: 'tollgate.v1.Reasoning', parts: [], opaque: [], redacted: false } });
const textPart = {
  $typeName: 'tollgate.v1.Part' as const,
  content: {
    case: 'text' as const,
    value: { $typeName: 'tollgate.v1.TextPart' as const, text: '', annotations: [], logprobs: [] },
  },
};
const reasoningPart = {
  $typeName: 'tollgate.v1.Part' as const,
  content: { case: 'reasoningText' as const, value: { $typeName: 'tollgate.v1.ReasoningTextPart' as const, text: '' } },
};
const opaque = { $typeName: 'tollgate.v1.Opaque' as const, provider: 'p', model: '', kind: 'k', data: 'd' };
const annotation = { $typeName: 'tollgate.v1.Annotation' as const, annotation: { case: undefined } };
const usage = (outputTokens: number): Usage => ({ $typeName: 'tollgate.v1.Usage', unpriced: [], outputTokens });

const words = (choice: number, number: number, ...texts: string[]): GenerationEvent[] => [
  itemOpened(choice, number, message()),
  partOpened(choice, [number, 0], textPart),
  ...texts.map(text => delta(choice, [number, 0], { kind: DeltaKind.TEXT, text })),
  partClosed(choice, [number, 0]),
  itemClosed(choice, number),
];

describe('foldEvents', () => {
  test('joins the deltas of texts, arguments and reasoning, and adds annotations, log probabilities and blobs', () => {
    const logprob = {
      $typeName: 'tollgate.v1.TokenLogprob' as const,
      token: 'a',
      logprob: -1,
      utf8: new Uint8Array(),
      top: [],
    };
    const { choices } = foldEvents([
      started({}),
      itemOpened(0, 0, reasoning()),
      partOpened(0, [0, 0], reasoningPart),
      delta(0, [0, 0], { kind: DeltaKind.REASONING, text: 'h' }),
      delta(0, [0, 0], { kind: DeltaKind.REASONING, text: 'm' }),
      opaqueAdded(0, 0, opaque),
      itemClosed(0, 0),
      itemOpened(0, 1, message()),
      partOpened(0, [1, 0], textPart),
      delta(0, [1, 0], { kind: DeltaKind.TEXT, text: 'a', logprobs: [logprob] }),
      annotationAdded(0, [1, 0], annotation),
      itemClosed(0, 1),
      itemOpened(0, 2, call()),
      delta(0, [2, 0], { kind: DeltaKind.ARGUMENTS, text: '{"a"' }),
      delta(0, [2, 0], { kind: DeltaKind.ARGUMENTS, text: ':1' }),
      opaqueAdded(0, 2, opaque),
      itemClosed(0, 2, ItemStatus.INCOMPLETE),
      finished(0, FinishReason.LENGTH),
    ]);
    expect(choices[0]?.items.map(({ status, content }) => ({ status, value: content.value }))).toMatchObject([
      { status: ItemStatus.COMPLETED, value: { parts: [{ content: { value: { text: 'hm' } } }], opaque: [opaque] } },
      {
        status: ItemStatus.COMPLETED,
        value: { parts: [{ content: { value: { text: 'a', logprobs: [logprob], annotations: [annotation] } } }] },
      },
      { status: ItemStatus.INCOMPLETE, value: { arguments: '{"a":1', signature: opaque } },
    ]);
    expect(choices[0]?.finished?.reason).toBe(FinishReason.LENGTH);
  });

  test('keeps the phase and the last status of an item', () => {
    const events = words(0, 0, 'a').slice(0, -1);
    const closed: GenerationEvent = {
      ...itemClosed(0, 0),
      event: {
        case: 'itemClosed',
        value: {
          $typeName: 'tollgate.v1.ItemClosed',
          item: 0,
          status: ItemStatus.COMPLETED,
          phase: Phase.FINAL_ANSWER,
        },
      },
    };
    expect(foldEvents([...events, closed]).choices[0]?.items[0]).toMatchObject({
      status: ItemStatus.COMPLETED,
      content: { value: { phase: Phase.FINAL_ANSWER } },
    });
  });

  test('separates interleaved choices, and includes choices without content', () => {
    const a = words(0, 0, 'a', 'b');
    const b = words(2, 0, 'c', 'd');
    fc.assert(
      fc.property(fc.array(fc.boolean(), { minLength: 10, maxLength: 10 }), order => {
        const [left, right] = [[...a], [...b]];
        const mingled = order
          .map(first => (first ? left : right).shift() ?? (first ? right : left).shift())
          .filter(event => event !== undefined);
        const { choices } = foldEvents([started({}), ...mingled, ...left, ...right]);
        expect(choices.map(({ items }) => items.length)).toEqual([1, 0, 1]);
        expect(JSON.stringify(choices[0]?.items)).toContain('"ab"');
        expect(JSON.stringify(choices[2]?.items)).toContain('"cd"');
      }),
    );
  });

  test('the last usage counts, and that of completed takes precedence', () => {
    expect(foldEvents([started({ usage: usage(1) })]).usage).toEqual(usage(1));
    expect(foldEvents([started({ usage: usage(1) }), usageReported(usage(2)), usageReported(usage(3))]).usage).toEqual(
      usage(3),
    );
    expect(foldEvents([started({}), usageReported(usage(3)), completed({ usage: usage(4) })]).usage).toEqual(usage(4));
    expect(foldEvents([started({}), usageReported(usage(3)), completed({})]).usage).toEqual(usage(3));
  });

  test('folds the events of an incomplete answer', () => {
    expect(foldEvents([])).toMatchObject({ started: undefined, completed: undefined, usage: undefined, choices: [] });
    const partial = foldEvents([started({ model: 'm' }), ...words(0, 0, 'a').slice(0, 3)]);
    expect(partial.started?.model).toBe('m');
    expect(partial.choices[0]).toMatchObject({
      finished: undefined,
      items: [
        { status: ItemStatus.IN_PROGRESS, content: { value: { parts: [{ content: { value: { text: 'a' } } }] } } },
      ],
    });
  });

  test('keeps extensions in order with their choice', () => {
    const extra = (json: string) => ({ $typeName: 'tollgate.v1.Extra' as const, protocol: Protocol.CHAT, json });
    const events = [
      started({}),
      extension(0, ExtensionScope.RESPONSE, extra('{"a":1}')),
      extension(1, ExtensionScope.DELTA, extra('{"b":2}')),
      extension(0, ExtensionScope.CHOICE, extra('{"c":3}')),
    ];
    const { choices } = foldEvents(events);
    expect(choices.map(({ extensions }) => extensions.map(each => each.extra?.json))).toEqual([
      ['{"a":1}', '{"c":3}'],
      ['{"b":2}'],
    ]);
  });

  test('does not change the events: folding them twice gives the same', () => {
    const events = [
      started({}),
      ...words(0, 0, 'a', 'b'),
      itemOpened(0, 1, call()),
      delta(0, [1, 0], { kind: DeltaKind.ARGUMENTS, text: '{}' }),
      itemClosed(0, 1),
    ];
    const before = structuredClone(events);
    const first = foldEvents(events);
    expect(events).toEqual(before);
    expect(foldEvents(events)).toEqual(first);
  });

  test.each<[string, GenerationEvent]>([
    ['a delta of an item that never opened', delta(0, [0, 0], { kind: DeltaKind.TEXT, text: 'a' })],
    ['a part of an item that never opened', partOpened(0, [3, 0], textPart)],
    ['the end of an item that never opened', itemClosed(0, 0)],
  ])('%s is a broken invariant', (_, event) => {
    expect(() => foldEvents([started({}), event])).toThrow('never opened');
  });

  test('a delta of a part that never opened is a broken invariant', () => {
    expect(() =>
      foldEvents([started({}), itemOpened(0, 0, message()), delta(0, [0, 0], { kind: DeltaKind.TEXT, text: 'a' })]),
    ).toThrow('part 0 never opened');
  });
});
