import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Aim, closedLoop } from '../load/load.ts';
import type { Peer } from '../peers.ts';
import { type Row, shown, shownFailures } from '../row.ts';
import { dollarsPerMillion, type GatewayTarget, startGateway, startUpstream, type Target, usage } from '../targets.ts';

const answerUsd = (usage.input * dollarsPerMillion.input + usage.output * dollarsPerMillion.output) / 1e6;
const budgetAnswers = 5;
const budgetUsd = budgetAnswers * answerUsd;
const requestsAtOnce = 200;
const answersBeforeKill = 100;

/** Sends all at once. Returns the answers with status 200, and the errors of the others. */
async function sendAtOnce(aim: Aim): Promise<{ answers: number; refusals: string }> {
  const load = { connections: requestsAtOnce, seconds: 60, answers: requestsAtOnce };
  const { answers, failures } = await closedLoop(aim, load);
  return { answers, refusals: shownFailures(failures) };
}

/** Sends one after the other, until one is refused or `count` are answered. */
async function sendInTurn(aim: Aim, count: number): Promise<number> {
  let answered = 0;
  while (answered < count) {
    const { answers } = await closedLoop(aim, { connections: 1, seconds: 60, answers: 1 });
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
    const { answers, refusals } = await sendAtOnce(gateway.aim('capped'));
    const spentUsd = await readSpentUsd(gateway, gateway.managementKey, budgetUsd);
    return {
      what: `${requestsAtOnce} requests at once on a budget of ${budgetAnswers} answers`,
      // More are answered than are charged if the budget ends within an answer, which is cut then.
      found: `${answers} answered${refusals}; charged ${shown(spentUsd / answerUsd)} times the price of an answer`,
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
    const answered = await sendInTurn(before.aim('capped'), answersBeforeKill);
    await before.process.stop('SIGKILL');
    const after = await startGateway(upstream, { folder });
    const spentUsd = await readSpentUsd(after, before.managementKey, balanceUsd);
    await after.stop();
    const charged = Math.round(spentUsd / answerUsd);
    return {
      what: `SIGKILL right after the last of ${answered} answers`,
      found: `${charged} charged after the restart`,
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

/** The same two tests for a peer, as far as it keeps budgets. */
export async function measurePeerMoney(peer: Peer, upstream: Target): Promise<Row[]> {
  if (!peer.hasBudget) return [{ what: `${peer.name}: the tests of money`, found: 'skipped: it keeps no budget' }];
  const send = async <T>(work: (aim: Aim) => Promise<T>): Promise<T> => {
    const target = await peer.start(upstream, { budgetUsd });
    try {
      return await work(target.aim('capped'));
    } finally {
      await target.stop();
    }
  };
  const { answers, refusals } = await send(sendAtOnce);
  const before = await send(aim => sendInTurn(aim, requestsAtOnce));
  const after = await send(aim => sendInTurn(aim, requestsAtOnce));
  return [
    {
      what: `${peer.name}: ${requestsAtOnce} requests at once on a budget of ${budgetAnswers} answers`,
      found: `${answers} answered${refusals}`,
    },
    {
      what: `${peer.name}: SIGKILL right after a budget of ${budgetAnswers} answers was used up`,
      found: `${before} answered before, ${after} more after the restart`,
    },
  ];
}
