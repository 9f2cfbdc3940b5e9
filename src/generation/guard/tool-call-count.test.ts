import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { PricingSchema } from '../../gen/tollgate/v1/catalog_pb.ts';
import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import { type GenerationEvent, GenerationEventSchema } from '../../gen/tollgate/v1/event_pb.ts';
import { type GenerateRequest, GenerateRequestSchema } from '../../gen/tollgate/v1/request_pb.ts';
import { itemClosed } from '../events.ts';
import { ToolCallCount } from './tool-call-count.ts';

const pricing = create(PricingSchema, { toolNanoUsd: { web_search: 10n, code_execution: 3n } });
const tool = (json: object) => ({
  tool: { case: 'hosted' as const, value: { protocol: Protocol.MESSAGES, json: JSON.stringify(json) } },
});
const both = create(GenerateRequestSchema, {
  tools: [tool({ type: 'web_search_20250305', max_uses: 3 }), tool({ type: 'code_execution_20250825' })],
});
const searches = create(GenerateRequestSchema, {
  source: {
    protocol: Protocol.CHAT,
    body: Buffer.from('{"web_search_options":{}}'),
    unknownFields: ['web_search_options'],
    pricedFields: ['web_search_options'],
  },
});

const opened = (name: string): GenerationEvent =>
  create(GenerationEventSchema, {
    event: {
      case: 'itemOpened',
      value: {
        content: {
          content: {
            case: 'serverTool',
            value: { protocol: Protocol.MESSAGES, json: JSON.stringify({ type: 'server_tool_use', name }) },
          },
        },
      },
    },
  });
const ran = (name: string): GenerationEvent[] => [opened(name), itemClosed(0, 0)];
const started = (warning: string): GenerationEvent =>
  create(GenerationEventSchema, { event: { case: 'started', value: { warnings: [warning] } } });

const silent = { extra: undefined, isEmpty: false };
const reports = (usage: object) => ({
  extra: { $typeName: 'tollgate.v1.Extra' as const, protocol: Protocol.MESSAGES, json: JSON.stringify(usage) },
  isEmpty: false,
});
const count = (request: GenerateRequest, events: readonly GenerationEvent[] = []): ToolCallCount => {
  const calls = new ToolCallCount(request, pricing);
  calls.count(events);
  return calls;
};
const text = (calls: ToolCallCount, report: Parameters<ToolCallCount['charges']>[0] = silent): string[] =>
  calls.charges(report).map(({ tool: name, calls: times }) => `${name} ${times}`);

describe('calls of priced tools', () => {
  test('are those of the answer’s items, for all names of code-execution tools', () => {
    const events = ['web_search', 'bash_code_execution', 'text_editor_code_execution'].flatMap(ran);
    expect(text(count(both, events))).toEqual(['web_search 1', 'code_execution 2']);
  });

  test('are those that the usage reports, even if it reports none', () => {
    const events = [...ran('web_search'), ...ran('web_search')];
    expect(text(count(both, events), reports({ server_tool_use: { web_search_requests: 1 } }))).toEqual([
      'web_search 1',
    ]);
    expect(text(count(both, events), reports({ server_tool_use: { web_search_requests: 0 } }))).toEqual([]);
  });

  test('are never more than the request allows, and never more than a thousand', () => {
    const usage = { server_tool_use: { web_search_requests: 50, code_execution_requests: 1e9 } };
    expect(text(count(both), reports(usage))).toEqual(['web_search 3', 'code_execution 1000']);
  });

  test('are added up if the answer paused; those of a failed attempt are not charged', () => {
    const calls = count(both, ran('web_search'));
    calls.restart();
    calls.count(ran('web_search'));
    calls.carry(silent);
    calls.count(ran('web_search'));
    expect(text(calls)).toEqual(['web_search 2']);
  });

  test('that a field of the request switches on count as one per candidate, unless the provider reports a number, did not get the field, or sent nothing', () => {
    expect(text(count(searches))).toEqual(['web_search 1']);
    expect(text(count(create(GenerateRequestSchema, { ...searches, candidates: 2 })))).toEqual(['web_search 2']);
    expect(text(count(searches), reports({ num_search_queries: 4 }))).toEqual(['web_search 4']);
    expect(text(count(searches, [started('dropped=seed,web_search_options')]))).toEqual([]);
    expect(text(count(searches), { ...silent, isEmpty: true })).toEqual([]);
  });
});
