import { type Row, type Settings, formatNumber } from '../row.ts';
import { percentile } from '../statistics.ts';
import { type GatewayTarget, startGateway, startUpstream } from '../targets.ts';

const turns = 1000;
/** The input of a turn: some lines of chat. The upstream answers with one word. */
const words = 'What do you think of that, and what would you do next in my place? '.repeat(3);

/** Continues a conversation, and returns the id of the new response. The upstream answers at once, so the measured time is that of the gateway. */
async function turn({ url, apiKey }: GatewayTarget, previous: string | undefined): Promise<string> {
  const answer = await fetch(`${url}/v1/responses`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${apiKey}` },
    body: JSON.stringify({ model: 'bench/short', input: words, previous_response_id: previous ?? null }),
  });
  const { id, status } = (await answer.json()) as { id?: string; status?: string };
  if (id === undefined || status !== 'completed') throw new Error(`a turn was answered with ${answer.status}`);
  return id;
}

/** Runs `work` `count` times, and returns the times in ms, ascending. */
async function times(count: number, work: () => Promise<void>): Promise<number[]> {
  const took: number[] = [];
  for (let index = 0; index < count; index += 1) {
    const began = performance.now();
    await work();
    took.push(performance.now() - began);
  }
  return took.sort((a, b) => a - b);
}

function row(what: string, took: readonly number[], target?: number): Row {
  const [p50, p99] = [percentile(took, 0.5), percentile(took, 0.99)];
  const measured = `p50 ${formatNumber(p50)} ms, p99 ${formatNumber(p99)} ms`;
  return target === undefined
    ? { what, measured }
    : { what, measured, target: `p50 under ${target} ms`, reached: p50 < target };
}

/** Measures how long continuing a stored conversation takes, from the request to the whole answer, for short and long conversations. */
export async function chain({ rounds }: Settings): Promise<Row[]> {
  const upstream = await startUpstream();
  const gateway = await startGateway(upstream);
  const count = rounds * 40;
  try {
    let last: string | undefined;
    for (let index = 0; index < 300; index += 1) last = await turn(gateway, undefined);
    const first = await times(count, async () => void (await turn(gateway, undefined)));
    last = undefined;
    for (let index = 0; index < turns - 1; index += 1) last = await turn(gateway, last);
    // Only the first continuation finds the conversation in memory; later ones read it from the store.
    const stored = await times(count, async () => void (await turn(gateway, last)));
    const going = await times(count, async () => void (last = await turn(gateway, last)));
    return [
      row('first turn of a conversation', first),
      row(`turn ${turns} of a conversation that is still in memory`, going, 50),
      row(`turn ${turns} of a conversation that is read from the store`, stored, 50),
    ];
  } finally {
    for (const target of [gateway, upstream]) await target.stop();
  }
}
