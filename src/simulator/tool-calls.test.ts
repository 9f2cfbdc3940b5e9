import { describe, expect, test } from 'vitest';
import { FinishReason } from '../gen/tollgate/v1/event_pb.ts';
import { ToolKind } from '../gen/tollgate/v1/content_pb.ts';
import { Endpoint, ToolChoiceMode } from '../gen/tollgate/v1/request_pb.ts';
import { ask, tool, toolResult, user } from './fixtures/ask.ts';
import { createSimulator } from './simulator.ts';

const simulator = createSimulator({ tokensPerSecond: 0, steering: true });
const weather = tool('get_weather', ['city'], 'Current weather of a city');
const time = tool('get_time', ['timezone'], 'Current time');
const email = tool('send_email', ['to', 'body']);
const tools = [email, time, weather];
const named = (...names: string[]): { name: string }[] => names.map(name => ({ name }));

async function called(text: string, more: object = {}): Promise<string[]> {
  const answer = await ask(simulator, { items: [user(text)], tools, ...more });
  return answer.calls.map(call => `${call.name} ${call.arguments}`);
}

describe('a tool is called', () => {
  test('if it fits the text, with arguments from the text', async () => {
    const answer = await ask(simulator, { items: [user('What is the weather like in San Francisco?')], tools });
    expect(answer.calls).toMatchObject([{ name: 'get_weather', arguments: '{"city":"San Francisco"}' }]);
    expect(answer.calls[0]?.callId).toMatch(/^call_[0-9A-Za-z]{24}$/);
    expect(answer.finished[0]).toMatchObject({ reason: FinishReason.TOOL_CALLS, native: 'tool_calls' });
    expect(answer.text).toBe('');
  });

  test('with an id in the form that the client’s interface uses', async () => {
    const answer = await ask(simulator, { items: [user('Weather in Oslo?')], tools, endpoint: Endpoint.MESSAGES });
    expect(answer.calls[0]?.callId).toMatch(/^toolu_[0-9A-Za-z]{24}$/);
  });

  test('only if one fits', async () => {
    expect(await called('Hello there!')).toEqual([]);
    expect(await called('Tell me a joke about cats')).toEqual([]);
  });

  test('once for each of several places, and together with other requested tools', async () => {
    expect(await called('Weather in Paris, London and Rome please')).toEqual([
      'get_weather {"city":"Paris"}',
      'get_weather {"city":"London"}',
      'get_weather {"city":"Rome"}',
    ]);
    expect((await called('What are the weather and the time in Oslo?')).toSorted()).toEqual([
      'get_time {"timezone":"Oslo"}',
      'get_weather {"city":"Oslo"}',
    ]);
  });

  test('only once if calls may not be parallel, and not more often than allowed', async () => {
    const text = 'Weather in Paris, London and Rome please';
    expect(await called(text, { parallelToolCalls: false })).toEqual(['get_weather {"city":"Paris"}']);
    expect(await called(text, { maxToolCalls: 2 })).toHaveLength(2);
  });

  test('as the choice says: none, required, named, allowed', async () => {
    const { NONE, AUTO, REQUIRED, NAMED } = ToolChoiceMode;
    const text = 'What is the weather in Paris?';
    expect(await called(text, { toolChoice: { mode: NONE } })).toEqual([]);
    expect(await called('Hello there!', { toolChoice: { mode: REQUIRED } })).toHaveLength(1);
    expect(await called(text, { toolChoice: { mode: NAMED, tools: named('get_time') } })).toEqual([
      'get_time {"timezone":"Paris"}',
    ]);
    const allowed = { tools: named('get_time', 'send_email'), restricted: true };
    expect(await called(text, { toolChoice: { mode: AUTO, ...allowed } })).toEqual([]);
    expect(await called('The time in Paris?', { toolChoice: { mode: AUTO, ...allowed } })).toHaveLength(1);
    const [forced] = await called(text, { toolChoice: { mode: REQUIRED, ...allowed } });
    expect(forced).toMatch(/^(get_time|send_email) /);
    expect(await called(text, { toolChoice: { mode: NONE, ...allowed } })).toEqual([]);
  });

  test('not again after its result: the answer repeats the result', async () => {
    const first = await ask(simulator, { items: [user('Weather in Paris and Rome?')], tools });
    const [paris, rome] = first.calls;
    const items = [
      user('Weather in Paris and Rome?'),
      ...first.items,
      toolResult(paris?.callId ?? '', '{"sky":"cloudy"}', { name: 'get_weather' }),
      toolResult(rome?.callId ?? '', 'no such city', { name: 'get_weather', isError: true }),
    ];
    const answer = await ask(simulator, { items, tools });
    expect(answer.calls).toEqual([]);
    expect(answer.text).toContain('The tool get_weather answered: {"sky":"cloudy"}.');
    expect(answer.text).toContain('The tool get_weather failed: no such city.');
    expect(answer.finished[0]?.reason).toBe(FinishReason.STOP);
    const next = [...items, ...answer.items, user('And the weather in Lima?')];
    expect((await ask(simulator, { items: next, tools })).calls).toMatchObject([{ arguments: '{"city":"Lima"}' }]);
  });

  test('never because of words next to a result: Claude Code says "Tool loaded." after a search for tools', async () => {
    const search = tool('ToolSearch', ['query'], 'Finds tools by what they do');
    const first = await ask(simulator, { items: [user('Search a tool for me.')], tools: [search] });
    expect(first.calls).toMatchObject([{ name: 'ToolSearch' }]);
    const items = [
      user('Search a tool for me.'),
      ...first.items,
      { ...toolResult(first.calls[0]?.callId ?? '', 'ExitWorktree'), turn: 3 },
      { ...user('Tool loaded.'), turn: 3 },
    ];
    expect((await ask(simulator, { items, tools: [search] })).calls).toEqual([]);
  });

  test('with ids that do not repeat within a conversation', async () => {
    const ids = new Set<string>();
    let items = [user('Weather in Paris?')];
    for (let turn = 0; turn < 5; turn += 1) {
      const answer = await ask(simulator, { items, tools, candidates: 1 });
      for (const call of answer.calls) ids.add(call.callId);
      items = [...items, ...answer.items, toolResult(answer.calls[0]?.callId ?? '', 'fine'), user('Weather in Paris?')];
    }
    expect(ids.size).toBe(5);
  });

  test('and choosing it is fast, whatever the text', async () => {
    // CPU time, because other processes take their share of the wall time.
    const start = process.cpuUsage();
    for (const filling of [' ', '1', 'Paris and ', "'", '(', 'A']) {
      await called(`Weather in Paris ${filling.repeat(100_000 / filling.length)} Rome`);
    }
    expect(process.cpuUsage(start).user / 1_000).toBeLessThan(5_000);
  });

  test('custom tools get free text, and one with a regular expression gets a text that matches it', async () => {
    const plain = { tool: { case: 'custom', value: { name: 'run_code', description: 'Runs code' } } } as const;
    const formatJson = JSON.stringify({ type: 'grammar', syntax: 'regex', definition: '^\\d{3}-[a-f]+$' });
    const strict = { tool: { case: 'custom', value: { name: 'run_code', formatJson } } } as const;
    const items = [user('Run the code “print(1)”')];
    const free = await ask(simulator, { items, tools: [plain] });
    expect(free.calls).toMatchObject([{ name: 'run_code', arguments: 'print(1)' }]);
    expect(free.items[0]?.content.case === 'toolCall' && free.items[0].content.value.kind).toBe(ToolKind.CUSTOM);
    const [call] = (await ask(simulator, { items, tools: [strict] })).calls;
    expect(call?.arguments).toMatch(/^\d{3}-[a-f]+$/);
  });

  test('with arguments that the output limit can cut', async () => {
    const items = [user('!sim calls=3')];
    const answer = await ask(simulator, { items, tools: [weather], maxOutputTokens: 17 });
    expect(answer.finished[0]?.reason).toBe(FinishReason.LENGTH);
    expect(answer.completed?.usage?.outputTokens).toBeLessThanOrEqual(17);
    expect(answer.calls.length).toBeLessThan(3);
  });
});

describe('calls that a steering line asks for', () => {
  test('come after the text of `say`, each tool before any twice', async () => {
    const answer = await ask(simulator, { items: [user('Weather?\n!sim calls=4 say=One moment.')], tools });
    expect(answer.text).toBe('One moment.');
    expect(answer.calls.map(call => call.name)).toEqual(['get_weather', 'send_email', 'get_time', 'get_weather']);
    expect(new Set(answer.calls.map(call => call.callId)).size).toBe(4);
    expect((await ask(simulator, { items: [user('!sim calls=128')], tools })).calls).toHaveLength(128);
  });

  test('end once a result follows the line', async () => {
    const items = [user('!sim calls=1')];
    const first = await ask(simulator, { items, tools });
    const after = [...items, ...first.items, toolResult(first.calls[0]?.callId ?? '', 'done')];
    expect((await ask(simulator, { items: after, tools })).calls).toEqual([]);
  });

  test('follow the rules of the request, unless the line says to ignore them', async () => {
    const names = async (line: string, more: object): Promise<string[]> =>
      (await ask(simulator, { items: [user(line)], tools, ...more })).calls.map(call => call.name);
    const oneOnly = { parallelToolCalls: false };
    expect(await names('!sim calls=3', oneOnly)).toHaveLength(1);
    expect(await names('!sim calls=3 ignore=parallel', oneOnly)).toHaveLength(3);
    expect(await names('!sim calls=3', { maxToolCalls: 2 })).toHaveLength(2);
    expect(await names('!sim calls=3 ignore=max_tool_calls', { maxToolCalls: 2 })).toHaveLength(3);
    const onlyTime = { toolChoice: { mode: ToolChoiceMode.AUTO, tools: named('get_time'), restricted: true } };
    expect(await names('!sim calls=2', onlyTime)).toEqual(['get_time', 'get_time']);
    expect(await names('!sim calls=1 ignore=tool_choice', onlyTime)).not.toContain('get_time');
    expect(await names('!sim calls=2', { toolChoice: { mode: ToolChoiceMode.NONE } })).toEqual([]);
    expect(await names('!sim calls=2 ignore=tool_choice', { toolChoice: { mode: ToolChoiceMode.NONE } })).toHaveLength(
      2,
    );
  });

  test('without tools are an answer in text', async () => {
    const answer = await ask(simulator, { items: [user('!sim calls=2')] });
    expect(answer.calls).toEqual([]);
    expect(answer.finished[0]?.reason).toBe(FinishReason.STOP);
  });
});
