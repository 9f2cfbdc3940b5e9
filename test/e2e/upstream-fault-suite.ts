/**
 * Every fault of an upstream at every moment, for upstreams of a protocol and clients of every interface (docs/errors.md "Errors of providers"; docs/interfaces/README.md "Finish reasons"; docs/accounting.md "Settlement"): the caller soon gets an error or the model's own finish, and is charged as documented.
 */
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ActivityRecord, RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { UsageSource } from '../../src/gen/tollgate/v1/event_pb.ts';
import { readBalance, endGateway, type Gateway, heldBy, readRecord } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { RawUpstream, type SeenRequest } from '../upstreams/raw-upstream.ts';
import { basePaths } from '../upstreams/text-protocol.ts';
import { type Seen, type Way, ways } from './upstream-callers.ts';
import {
  answerWith,
  type Fault,
  failWith,
  type FaultName,
  faults,
  type Moment,
  type MomentName,
  listMoments,
  type UsageCase,
  usageNames,
  listUsages,
  wholeAnswer,
} from './upstream-fault-table.ts';
import { faultProtocol } from './upstream-fault-protocol.ts';
import { chatWire, geminiWire, messagesWire, responsesWire, type Wire } from './upstream-wires.ts';

const faultWires = { chat: chatWire, responses: responsesWire, messages: messagesWire, gemini: geminiWire };
/** The protocol of the upstreams, which each file that imports the suite sets. */
const wire: Wire = faultWires[faultProtocol()];
const moments: Readonly<Record<MomentName, Moment>> = listMoments(wire);
const usages = listUsages(wire);

/** The timeouts: longer than anything except a stall takes on a busy machine. The total one is longer than the suite may take, so that a request that only it would end fails the suite. */
const limitMs = 6_000;
const outputMax = 1_000;

const faultNames = Object.keys(faults) as FaultName[];
const momentNames = Object.keys(moments) as MomentName[];

const applies = (fault: FaultName, moment: MomentName): boolean => {
  const { only }: Fault = faults[fault];
  const { needsFinish }: Moment = moments[moment];
  if (needsFinish === true && wire.finish === undefined) return false;
  return only === undefined || only.at.includes(moment);
};
const cells = faultNames.flatMap(fault =>
  momentNames.filter(moment => applies(fault, moment)).map(moment => ({ fault, moment })),
);
const nameModel = (fault: string, moment: string): string => `cell/${fault}--${moment}`.replaceAll(' ', '_');

/** Faults after which the gateway does not use a provider's key for some time, so that the next request would not be sent. */
const restingFaults = new Set<string>(['status 401', 'status 403', 'status 429']);
const restingModels = new Set(
  cells.filter(({ fault }) => restingFaults.has(fault)).map(({ fault, moment }) => nameModel(fault, moment)),
);

/**
 * Returns the listed id that a caller requests. Four callers share an id, because five failures in a row would open a circuit breaker for later callers. If the key is not used after the fault,
 * each caller has a separate provider.
 */
function idFor(model: string, way: Way): string {
  const index = ways.indexOf(way);
  if (restingModels.has(model)) return `${model}.${index}`;
  return sharedId(model, index);
}

const callersOfId = 4;
const sharedId = (model: string, index: number): string => `${model}.${Math.floor(index / callersOfId)}`;

const ownProvider = (model: string, index: number): string => `own-${[...restingModels].indexOf(model)}-${index}`;

/** The outcome of a request for one fault at one moment. */
interface Ran {
  readonly seen: Seen;
  /** Undefined if the request left no record. */
  readonly record: ActivityRecord | undefined;
}
const ran = new Map<string, Ran>();
const toKey = (model: string, way: Way): string => `${model} ${way.name}`;

let upstream: RawUpstream;
let gateway: Gateway;
let goneUrl: string;
const initialNanoUsd = 10_000_000_000n;

const modelIn = (request: SeenRequest): string => wire.readModel(request);

function config(): string {
  const model = (name: string, provider = 'raw'): string =>
    restingModels.has(name)
      ? ways.map((_, index) => listed(`${name}.${index}`, name, ownProvider(name, index))).join('')
      : [...new Set(ways.map((_, index) => sharedId(name, index)))].map(id => listed(id, name, provider)).join('');
  const listed = (id: string, name: string, provider: string): string => `
  - id: "${id}"
    endpoints: [/v1/chat/completions, /v1/responses, /v1/messages, "/v1beta/models/{model}:generateContent"]
    context_length: 128000
    max_output_tokens: ${outputMax}
    capabilities: { function_call: true }
    pricing: { input: 1, output: 10, caching: { read: 0.1 } }
    routes: [{ provider: ${provider}, model: "${name}" }]`;
  const raw = `{ protocol: ${wire.protocol}, base_url: "${new URL(upstream.baseUrl).origin}${basePaths[wire.protocol]}", api_key: key-of-the-upstream }`;
  const owners = [...restingModels].flatMap(name => ways.map((_, index) => ownProvider(name, index)));
  return `
simulator: { enabled: false }
retries: 0
limits: { upstream_event_bytes: 20000 }
timeouts: { connect: 30s, first_event: ${limitMs}ms, idle: ${limitMs}ms, total: 1h }
providers:
  raw: ${raw}${owners.map(name => `\n  ${name}: ${raw}`).join('')}
  gone: { protocol: ${wire.protocol}, base_url: "${new URL(goneUrl).origin}${basePaths[wire.protocol]}" }
models:${cells.map(({ fault, moment }) => model(nameModel(fault, moment), fault === 'refused' ? 'gone' : 'raw')).join('')}${usageNames.map(name => model(nameModel('usage', name))).join('')}
`;
}

/** Runs jobs, `width` at a time. */
async function pool(jobs: readonly (() => Promise<void>)[], width: number): Promise<void> {
  const queue = jobs.values();
  await Promise.all(
    Array.from({ length: width }, async () => {
      for (const job of queue) await job();
    }),
  );
}

async function runCell(model: string, way: Way): Promise<void> {
  const seen = await way.ask(gateway, idFor(model, way));
  const found = await gateway.account.getActivity({ requestId: seen.requestId }).catch(() => undefined);
  ran.set(toKey(model, way), { seen, record: found?.record });
}

beforeAll(async () => {
  const gone = await RawUpstream.start(() => undefined);
  goneUrl = gone.baseUrl;
  await gone.stop();
  const behaviours = new Map([
    ...cells.map(({ fault, moment }) => [nameModel(fault, moment), failWith(wire, fault, moment)] as const),
    ...usageNames.map(name => [nameModel('usage', name), answerWith(wire, name)] as const),
  ]);
  upstream = await RawUpstream.start((socket, request) => behaviours.get(modelIn(request))?.(socket, request));
  gateway = await startGateway({ config: config() });
  const models = [
    ...cells.map(({ fault, moment }) => nameModel(fault, moment)),
    ...usageNames.map(name => nameModel('usage', name)),
  ];
  const slow = (model: string): boolean => /stall|slow|finish|usage/.test(model);
  const listJobs = (chosen: readonly string[]): (() => Promise<void>)[] =>
    chosen.flatMap(model => ways.map(way => () => runCell(model, way)));
  // The slow ones wait at the same time.
  await Promise.all([
    pool(listJobs(models.filter(slow)), 150),
    pool(listJobs(models.filter(model => !slow(model))), 24),
  ]);
});
afterAll(async () => {
  await endGateway(gateway);
  await upstream.stop();
});

/** Returns what a caller must receive: the end, the status of a refusal, and the code. */
function expectedEnd(fault: FaultName, moment: MomentName, way: Way): (string | number)[] {
  const { meaning, unnoticed }: Fault = faults[fault];
  const { stage }: Moment = moments[moment];
  if (stage === 'finished' && wire.needsEnd && meaning !== 'reported') {
    return way.streamed ? ['broken', 'upstream_error'] : ['refused', 502, 'upstream_error'];
  }
  // After the finish reason only usage can be missing, which is not a failure. An error that the upstream reports is a failure, unless the finish reason came together with the usage.
  const isOver = wire.finish === undefined;
  if (stage === 'finished' && (isOver || meaning === 'error' || meaning === 'timeout')) return ['answer'];
  if (meaning === 'rejected') return ['refused', 400, 'upstream_rejected'];
  const code = meaning === 'timeout' || moment === unnoticed ? 'upstream_timeout' : 'upstream_error';
  return way.streamed && stage !== 'nothing' ? ['broken', code] : ['refused', 502, code];
}

/** Returns the charged tokens; undefined if the request leaves no record. */
function expectedCharge(fault: FaultName, moment: MomentName, way: Way): Charged | undefined {
  const { meaning }: Fault = faults[fault];
  const { delivered, usage, stage }: Moment = moments[moment];
  if (meaning === 'rejected') return undefined;
  const [end] = expectedEnd(fault, moment, way);
  const input = usage === true ? { input: 30, cacheRead: 10 } : { input: estimatedInput(), cacheRead: 0 };
  const output = countTokens(delivered);
  if (end === 'answer') {
    return { state: RecordState.COMPLETED, ...input, output: usage === true ? 20 : output };
  }
  const free = !way.streamed || delivered === '' || stage === 'nothing';
  return {
    state: RecordState.UPSTREAM_FAILED,
    ...(free ? { input: 0, cacheRead: 0, output: 0 } : { ...input, output }),
  };
}

interface Charged {
  readonly state: RecordState;
  readonly input: number;
  readonly cacheRead: number;
  readonly output: number;
}

const findRun = (model: string, way: Way): Ran =>
  ran.get(toKey(model, way)) ?? expect.fail(`${model} by ${way.name} never ran`);

/** Returns the gateway's token count of the prompt, which is the same for all faults. */
function estimatedInput(): number {
  const [way] = ways;
  const tokens = way === undefined ? undefined : findRun(nameModel('usage', 'missing'), way).record?.usage?.inputTokens;
  return tokens ?? expect.fail('nothing was counted');
}

function charged({ record }: Ran): Charged | undefined {
  if (record === undefined) return undefined;
  const { inputTokens = 0, cacheReadTokens = 0, outputTokens = 0 } = record.usage ?? {};
  return { state: record.state, input: inputTokens, cacheRead: cacheReadTokens, output: outputTokens };
}

/** Returns the cost in nano-dollars; all models have the same prices. */
const computeCost = ({ input, cacheRead, output }: Charged): bigint =>
  BigInt(input * 1_000 + cacheRead * 100 + output * 10_000);

describe.each(ways)('$name', way => {
  test.each(cells)('$fault $moment', ({ fault, moment }) => {
    const it = findRun(nameModel(fault, moment), way);
    const { seen, record } = it;
    const { delivered, stage }: Moment = moments[moment];
    expect([seen.end, seen.status, seen.code].filter(value => value !== undefined)).toEqual(
      expectedEnd(fault, moment, way),
    );
    expect(seen.wrong).toEqual([]);
    if (seen.end === 'answer') {
      expect([seen.text, seen.arguments, seen.finish]).toEqual([
        wholeAnswer.text,
        wholeAnswer.arguments,
        wholeAnswer.finish,
      ]);
    } else {
      expect(seen.finish).toBeUndefined();
      // Exactly the output before the fault was passed on.
      const shown = way.streamed && stage !== 'nothing' ? delivered.replace(wholeAnswer.toolName, '') : '';
      if (way.wholeCalls === true && seen.arguments === '') expect(shown.replace(/\{.*$/, '')).toBe(seen.text);
      else expect(seen.text + seen.arguments).toBe(shown);
    }
    const expected = expectedCharge(fault, moment, way);
    expect(charged(it)).toEqual(expected);
    expect(record?.costNanoUsd).toBe(expected === undefined ? undefined : computeCost(expected));
    const { meaning }: Fault = faults[fault];
    expect(seen.retryAfter).toBe(meaning === 'busy' ? '7' : undefined);
  });

  test.each(usageNames)('usage: %s', name => {
    const it = findRun(nameModel('usage', name), way);
    expect([it.seen.end, it.seen.finish, it.seen.text]).toEqual(['answer', 'tool_calls', wholeAnswer.text]);
    const { charged: reported }: UsageCase = usages[name];
    const expected = {
      state: RecordState.COMPLETED,
      input: reported.input ?? estimatedInput(),
      cacheRead: reported.cacheRead ?? 0,
      output: reported.output ?? countTokens(wholeAnswer.outputText),
    };
    expect(charged(it)).toEqual(expected);
    expect(it.record?.costNanoUsd).toBe(computeCost(expected));
    const whole = reported.input !== undefined && reported.output !== undefined;
    expect(it.record?.usageSource).toBe(whole ? UsageSource.REPORTED : UsageSource.ESTIMATED);
  });
});

test('the estimate of the prompt’s tokens is plausible', () => {
  expect(estimatedInput()).toBeGreaterThan(7);
  expect(estimatedInput()).toBeLessThan(80);
});

test('the connections to upstreams that failed are closed', () => {
  const failed = new Set(
    cells
      .filter(({ moment }) => moments[moment].stage !== 'finished')
      .map(({ fault, moment }) => nameModel(fault, moment)),
  );
  const open = upstream.requests.filter(request => failed.has(modelIn(request)) && !request.socket.destroyed);
  // After an answer that is complete by the rules of HTTP, the connection can be reused.
  expect(open.map(modelIn).filter(model => !/status|truncated/.test(model))).toEqual([]);
});

test('each request was sent once, and refused requests were not sent', () => {
  const sent = new Map<string, number>();
  for (const request of upstream.requests) sent.set(modelIn(request), (sent.get(modelIn(request)) ?? 0) + 1);
  for (const { fault, moment } of cells) {
    expect([fault, moment, sent.get(nameModel(fault, moment)) ?? 0]).toEqual([
      fault,
      moment,
      fault === 'refused' ? 0 : ways.length,
    ]);
  }
});

test('nothing is held, and the account has paid the sum of the records', async () => {
  await expect.poll(() => heldBy(gateway)).toBe(0n);
  const shown = await gateway.cli(['accounts', 'show', '1', '--json']);
  expect(shown.json).toMatchObject({ held: 0 });
  const spent = [...ran.values()].reduce((sum, { record }) => sum + (record?.costNanoUsd ?? 0n), 0n);
  expect(spent).toBeGreaterThan(0n);
  expect(initialNanoUsd - (await readBalance(gateway))).toBe(spent);
});

test('the gateway still answers', async () => {
  const [way] = ways;
  const seen = await way?.ask(gateway, idFor(nameModel('usage', 'right'), way));
  expect((await readRecord(gateway, seen?.requestId ?? '')).state).toBe(RecordState.COMPLETED);
});

/** Returns one letter for each way: a answered, r refused, b broken off; in capitals if it was charged. */
function letters(fault: FaultName, moment: MomentName): string {
  return ways
    .map(way => {
      const { seen, record } = findRun(nameModel(fault, moment), way);
      const letter = { answer: 'a', refused: 'r', broken: 'b' }[seen.end];
      return (record?.costNanoUsd ?? 0n) > 0n ? letter.toUpperCase() : letter;
    })
    .join('');
}

test('every fault is tested at every moment at which it can happen', () => {
  const rows = faultNames.map(fault => [
    fault,
    ...momentNames.map(moment => (applies(fault, moment) ? letters(fault, moment) : '–')),
  ]);
  const table = [['', ...momentNames], ...rows];
  const widths = table[0]?.map((_, column) => Math.max(...table.map(row => row[column]?.length ?? 0))) ?? [];
  const lines = table.map(row => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '));
  const legend = `Upstreams of ${wire.protocol}. ${ways.map(({ name }) => name).join(', ')}: a answered, r refused, b broken off; capital: charged; –: cannot be`;
  process.stdout.write(`\n${legend}\n${lines.join('\n')}\n`);
  for (const fault of faultNames) {
    const { only }: Fault = faults[fault];
    const left = momentNames.filter(moment => !applies(fault, moment));
    const unexplained = left.filter(moment => moments[moment].needsFinish !== true);
    expect(unexplained.length === 0 ? '' : only?.because).not.toBeUndefined();
  }
  expect(ran.size).toBe((cells.length + usageNames.length) * ways.length);
});
