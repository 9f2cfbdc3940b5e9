import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { GenerateRequestSchema, ToolChoiceMode } from '../../gen/tollgate/v1/request_pb.ts';
import { CallFilter, type CallRules, callRules } from './call-filter.ts';
import { callItem, listFinishes, stop, textItem, through } from './answers.fixtures.ts';
import type { EventStep } from './step.ts';

const defaultRules: CallRules = { candidates: 1, callsMax: Infinity, callable: undefined };

function listNames(events: readonly GenerationEvent[]): [number, string][] {
  return events.flatMap(({ event }) => {
    if (event.case !== 'itemOpened') return [];
    const content = event.value.content?.content;
    return [[event.value.item, content?.case === 'toolCall' ? content.value.name : 'text'] satisfies [number, string]];
  });
}

const filter = (rules: CallRules) => (next: EventStep) => new CallFilter(next, rules);

const answer = [
  ...textItem(['hi']),
  ...callItem('a', 1),
  ...callItem('b', 2),
  ...callItem('a', 3),
  stop(FinishReason.TOOL_CALLS),
];

describe('CallFilter', () => {
  test('with the rules of a request that sets none, an answer with one choice passes unchanged', () => {
    expect(through(filter(defaultRules), answer)).toEqual(answer);
  });

  test('calls beyond the limit are left out completely, and the items are numbered without gaps', () => {
    expect(listNames(through(filter({ ...defaultRules, callsMax: 1 }), answer))).toEqual([
      [0, 'text'],
      [1, 'a'],
    ]);
  });

  test('calls of tools that the tool choice does not allow are left out, and later items get lower numbers', () => {
    const out = through(filter({ ...defaultRules, callable: new Set(['b']) }), answer);
    expect(listNames(out)).toEqual([
      [0, 'text'],
      [1, 'b'],
    ]);
    expect(listFinishes(out)).toEqual([[FinishReason.TOOL_CALLS, undefined]]);
  });

  test('a choice whose calls were all left out does not have the finish reason for calls', () => {
    const out = through(filter({ ...defaultRules, callsMax: 0 }), answer);
    expect(listNames(out)).toEqual([[0, 'text']]);
    expect(listFinishes(out)).toEqual([[FinishReason.STOP, undefined]]);
  });

  test('choices that were not requested are left out', () => {
    const out = through(filter(defaultRules), [
      ...textItem(['a']),
      ...textItem(['b'], { choice: 1 }),
      stop(),
      stop(FinishReason.STOP, 1),
    ]);
    expect(new Set(out.map(event => event.choice))).toEqual(new Set([0]));
  });

  test('the rules follow from the request', () => {
    const rules = (init: Parameters<typeof create<typeof GenerateRequestSchema>>[1]) =>
      callRules(create(GenerateRequestSchema, init));
    expect(rules({})).toEqual(defaultRules);
    expect(rules({ candidates: 3, parallelToolCalls: false })).toEqual({
      candidates: 3,
      callsMax: 1,
      callable: undefined,
    });
    expect(rules({ toolChoice: { mode: ToolChoiceMode.NONE } }).callsMax).toBe(0);
    expect(rules({ maxToolCalls: 2, parallelToolCalls: true }).callsMax).toBe(2);
    expect(rules({ toolChoice: { mode: ToolChoiceMode.NAMED, tools: [{ name: 'a' }] } }).callable).toEqual(
      new Set(['a']),
    );
    expect(
      rules({ toolChoice: { mode: ToolChoiceMode.AUTO, restricted: true, tools: [{ name: 'a' }, { name: 'b' }] } })
        .callable,
    ).toEqual(new Set(['a', 'b']));
  });
});
