import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Traffic, closedLoop } from '../load/load.ts';
import type { Peer } from '../peers.ts';
import { type Row, formatNumber, formatFailures } from '../row.ts';
import { dollarsPerMillion, type GatewayTarget, startGateway, startUpstream, type Target, usage } from '../targets.ts';

const answerUsd = (usage.input * dollarsPerMillion.input + usage.output * dollarsPerMillion.output) / 1e6;
const budgetAnswers = 5;
const budgetUsd = budgetAnswers * answerUsd;
const requestsAtOnce = 200;
const answersBeforeKill = 100;

/** Sends all requests at once. Returns the number of answers with status 200, and the errors of the others. */
async function sendAtOnce(traffic: Traffic): Promise<{ answers: number; refusals: string }> {
  const load = { connections: requestsAtOnce, seconds: 60, answers: requestsAtOnce };
  const { answers, failures } = await closedLoop(traffic, load);
  return { answers, refusals: formatFailures(failures) };
}

/** Sends requests one after the other until one is refused or `count` are answered. Returns how many were answered. */
async function sendInTurn(traffic: Traffic, count: number): Promise<number> {
  let answered = 0;
  while (answered < count) {
    const { answers } = await closedLoop(traffic, { connections: 1, seconds: 60, answers: 1 });
    if (answers === 0) break;
    answered += 1;
  }
  return answered;
}

/** Returns what the account of a gateway has spent, in dollars. */
async function readSpentUsd({ url }: GatewayTarget, managementKey: string, balanceUsd: number): Promise<number> {
  const headers = { authorization: `Bearer ${managementKey}` };
  const answer = await fetch(`${url}/v1/account/balance`, { headers });
  const { balance } = (await answer.json()) as { balance: number };
  return balanceUsd - balance;
}

async function overspend(upstream: Target): Promise<Row> {
  const gateway = await startGateway(upstream, { balance: budgetUsd.toFixed(9) });
  try {
    const { answers, refusals } = await sendAtOnce(gateway.traffic('capped'));
    const spentUsd = await readSpentUsd(gateway, gateway.managementKey, budgetUsd);
    return {
      what: `${requestsAtOnce} requests at once on a budget of ${budgetAnswers} answers`,
      // If the budget is used up within an answer, that answer is cut, so more are answered than are charged in full.
      measured: `${answers} answered${refusals}; charged ${formatNumber(spentUsd / answerUsd)} times the price of an answer`,
      target: `charged at most ${budgetAnswers} times the price`,
      reached: spentUsd <= budgetUsd,
    };
  } finally {
    await gateway.stop();
  }
}

async function killAfterAnswer(upstream: Target): Promise<Row> {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'));
  const balanceUsd = 1;
  try {
    const before = await startGateway(upstream, { folder, balance: String(balanceUsd) });
    const answered = await sendInTurn(before.traffic('capped'), answersBeforeKill);
    await before.process.stop('SIGKILL');
    const after = await startGateway(upstream, { folder });
    const spentUsd = await readSpentUsd(after, before.managementKey, balanceUsd);
    await after.stop();
    const charged = Math.round(spentUsd / answerUsd);
    return {
      what: `SIGKILL right after the last of ${answered} answers`,
      measured: `${charged} charged after the restart`,
      target: `${answered}`,
      reached: charged === answered,
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Measures how far a budget is exceeded under load, and what a killed gateway has charged. */
export async function money(): Promise<Row[]> {
  const upstream = await startUpstream();
  try {
    return [await overspend(upstream), await killAfterAnswer(upstream)];
  } finally {
    await upstream.stop();
  }
}

/** Runs the same two tests with a peer, if it can limit costs. */
export async function measurePeerMoney(peer: Peer, upstream: Target): Promise<Row[]> {
  if (!peer.hasBudget) return [{ what: `${peer.name}: the tests of money`, measured: 'skipped: it keeps no budget' }];
  const send = async <T>(work: (traffic: Traffic) => Promise<T>): Promise<T> => {
    const target = await peer.start(upstream, { budgetUsd });
    try {
      return await work(target.traffic('capped'));
    } finally {
      await target.stop();
    }
  };
  const { answers, refusals } = await send(sendAtOnce);
  const before = await send(traffic => sendInTurn(traffic, requestsAtOnce));
  const after = await send(traffic => sendInTurn(traffic, requestsAtOnce));
  return [
    {
      what: `${peer.name}: ${requestsAtOnce} requests at once on a budget of ${budgetAnswers} answers`,
      measured: `${answers} answered${refusals}`,
    },
    {
      what: `${peer.name}: SIGKILL right after a budget of ${budgetAnswers} answers was used up`,
      measured: `${before} answered before, ${after} more after the restart`,
    },
  ];
}
