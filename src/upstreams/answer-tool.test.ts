import { expect, test } from 'vitest';
import { DeltaKind, FinishReason, type GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import { makeItem, toolCallContent } from '../codecs/content.ts';
import { completed, delta, finished, itemClosed, itemOpened, started } from '../generation/events.ts';
import { foldEvents } from '../generation/fold.ts';
import { Validator } from '../generation/guard/validate.ts';
import { AnswerTool } from './answer-tool.ts';

const call = (item: number, name: string, args: string): GenerationEvent[] => [
  itemOpened(0, item, makeItem(toolCallContent({ callId: `c${item}`, name }), 0)),
  delta(0, [item, 0], { kind: DeltaKind.ARGUMENTS, text: args.slice(0, 3) }),
  delta(0, [item, 0], { kind: DeltaKind.ARGUMENTS, text: args.slice(3) }),
  itemClosed(0, item),
];

function restored(...calls: GenerationEvent[][]): { items: unknown[]; reason: FinishReason | undefined } {
  const answer = new AnswerTool('answer');
  const events = answer.restored([started({}), ...calls.flat(), finished(0, FinishReason.TOOL_CALLS), completed({})]);
  const checked: GenerationEvent[] = [];
  const validator = new Validator(checked);
  for (const event of events) validator.push(event);
  validator.end();
  const [choice] = foldEvents(checked).choices;
  const items = (choice?.items ?? []).map(({ content }) => {
    if (content.case === 'toolCall') return [content.value.name, content.value.arguments];
    const part = content.case === 'message' ? content.value.parts[0]?.content : undefined;
    return part?.case === 'text' ? part.value.text : content.case;
  });
  return { items, reason: choice?.finished?.reason };
}

test('a call of the tool becomes the answer’s text, with an ordinary finish reason (case JS-03 of test/translation/cases.json)', () => {
  expect(restored(call(0, 'answer', '{"a":1}'))).toEqual({ items: ['{"a":1}'], reason: FinishReason.STOP });
});

test('calls of the client’s own tools stay calls', () => {
  expect(restored(call(0, 'f', '{"b":2}'))).toEqual({ items: [['f', '{"b":2}']], reason: FinishReason.TOOL_CALLS });
  expect(restored(call(0, 'answer', '{"a":1}'), call(1, 'f', '{"b":2}'))).toEqual({
    items: ['{"a":1}', ['f', '{"b":2}']],
    reason: FinishReason.TOOL_CALLS,
  });
});
