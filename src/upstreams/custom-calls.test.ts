import { expect, test } from 'vitest';
import { makeItem, makeRequest, toolCallContent } from '../codecs/content.ts';
import { ItemStatus, ToolKind } from '../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, type GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import { foldEvents } from '../generation/fold.ts';
import { delta, itemClosed, itemOpened } from '../generation/events.ts';
import { CustomCalls } from './custom-calls.ts';

const request = makeRequest({
  tools: [
    {
      $typeName: 'tollgate.v1.Tool',
      tool: {
        case: 'custom',
        value: { $typeName: 'tollgate.v1.CustomTool', name: 'patch', description: undefined, formatJson: '' },
      },
    },
  ],
});

function callEvents(name: string, ...texts: string[]): GenerationEvent[] {
  return [
    itemOpened(0, 0, makeItem(toolCallContent({ callId: 'a', name }), 0)),
    ...texts.map(text => delta(0, [0, 0], { kind: DeltaKind.ARGUMENTS, text })),
    itemClosed(0, 0),
  ];
}

test.each([
  ['{"input":"a\\nb', 'a\nb'],
  ['{"input":"a\\', 'a'],
  ['{"input":"a\\u00e', 'a'],
  ['{"inp', '{"inp'],
])('a call whose arguments broke off as %j is incomplete', (args, text) => {
  const calls = new CustomCalls(request);
  const [call] = foldEvents(calls.restored(callEvents('patch', args))).choices[0]?.items ?? [];
  expect([call?.status, call?.content.value]).toMatchObject([ItemStatus.INCOMPLETE, { arguments: text }]);
});

test.each([
  ['patch', ['{"input":"a\\n', '\\u00e9"}'], ToolKind.CUSTOM, 'a\né'],
  ['patch', ['{"other":1}'], ToolKind.CUSTOM, '{"other":1}'],
  ['patch', ['{"inp'], ToolKind.CUSTOM, '{"inp'],
  ['f', ['{"input":"a"}'], ToolKind.FUNCTION, '{"input":"a"}'],
] as const)(
  'a complete call of %s with %j becomes a call of a free-form tool only if that tool is one',
  (...[name, texts, kind, text]) => {
    const calls = new CustomCalls(request);
    const events = callEvents(name, ...texts).flatMap(event => calls.restored([event]));
    const [call] = foldEvents(events).choices[0]?.items ?? [];
    expect(call?.content).toMatchObject({ case: 'toolCall', value: { name, kind, arguments: text } });
  },
);
