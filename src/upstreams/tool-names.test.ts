import { describe, expect, test } from 'vitest';
import { makeItem, messageContent, makeRequest, toolCallContent, toolResultContent } from '../codecs/content.ts';
import { Role, ToolKind } from '../gen/tollgate/v1/content_pb.ts';
import { type Tool, ToolChoiceMode } from '../gen/tollgate/v1/request_pb.ts';
import { foldEvents } from '../generation/fold.ts';
import { itemClosed, itemOpened } from '../generation/events.ts';
import { ToolNames } from './tool-names.ts';

const legal = /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/;
const functionTool = (name: string): Tool => ({
  $typeName: 'tollgate.v1.Tool',
  tool: {
    case: 'function',
    value: { $typeName: 'tollgate.v1.FunctionTool', name, parametersJson: '{}' },
  },
});
const long = `mcp__server__${'very_'.repeat(20)}long`;
const request = makeRequest({
  tools: [functionTool('f'), functionTool(long), functionTool(`${long}er`)],
  toolChoice: {
    $typeName: 'tollgate.v1.ToolChoice',
    mode: ToolChoiceMode.NAMED,
    tools: [{ $typeName: 'tollgate.v1.ToolName', name: long, kind: ToolKind.FUNCTION }],
    restricted: false,
  },
  items: [
    makeItem(messageContent(Role.USER, []), 0),
    makeItem(toolCallContent({ callId: 'a', name: long }), 1),
    makeItem(toolResultContent({ callId: 'a', name: long }), 0),
    makeItem(toolCallContent({ callId: 'b', name: 'gone' }), 2),
    makeItem(toolResultContent({ callId: 'b' }), 0),
  ],
});
const listNames = ({ tools, items, toolChoice }: typeof request): string[] => [
  ...tools.map(({ tool }) => (tool.case === 'function' ? tool.value.name : '')),
  ...items.map(({ content }) =>
    content.case === 'toolCall' || content.case === 'toolResult' ? content.value.name : '',
  ),
  ...(toolChoice?.tools ?? []).map(({ name }) => name),
];

describe('TR-11: tool names that the protocol does not accept', () => {
  test('are replaced in tools, history and choice, each always by the same distinct name', () => {
    const [f, first, second, ...rest] = listNames(new ToolNames(request, legal).request);
    expect(f).toBe('f');
    expect(first).toMatch(/^mcp__server__very_[a-z_]+_[0-9a-f]{12}$/);
    expect(first).toHaveLength(64);
    expect(second).toMatch(legal);
    expect(second).not.toBe(first);
    expect(rest).toEqual(['', first, first, 'gone', '', first]);
    const later = makeRequest({ tools: [functionTool(long)] });
    expect(listNames(new ToolNames(later, legal).request)).toEqual([first]);
  });

  test('leave the client’s request as it was', () => {
    const before = structuredClone(request);
    void new ToolNames(request, legal);
    expect(request).toEqual(before);
  });

  test('are replaced by names of allowed characters that begin with a letter or an underscore', () => {
    const requested = ['1st', '-x', 'ä b'];
    const { tools } = new ToolNames(makeRequest({ tools: requested.map(functionTool) }), legal).request;
    for (const { tool } of tools) expect(tool.case === 'function' ? tool.value.name : '').toMatch(legal);
  });

  test('are restored in calls; other calls are unchanged', () => {
    const names = new ToolNames(request, legal);
    const [, sent = ''] = listNames(names.request);
    const call = (item: number, name: string) => [
      itemOpened(0, item, makeItem(toolCallContent({ callId: `c${item}`, name }), 0)),
      itemClosed(0, item),
    ];
    const items = foldEvents(names.restored([...call(0, sent), ...call(1, 'f')])).choices[0]?.items ?? [];
    expect(items.map(({ content }) => (content.case === 'toolCall' ? content.value.name : ''))).toEqual([long, 'f']);
  });
});

test('if all names are accepted, the request is the same object', () => {
  const fits = makeRequest({ tools: [functionTool('f')] });
  expect(new ToolNames(fits, legal).request).toBe(fits);
});
