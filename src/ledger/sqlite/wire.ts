import type { WindowState } from '../../errors/gateway-error.ts';
import type {
  AdmitCommand,
  Admitted,
  Denied,
  ExtendCommand,
  FundsEstimate,
  SettleCommand,
  UsageBuckets,
} from '../ledger.ts';
import type { PriceSheet } from '../../generation/price.ts';
import type { AdminCommands, AdminReply } from '../rules/administration.ts';
import type { VoidReason } from '../rules/holds.ts';

/**
 * Commands on their way to the writer and replies on their way back: plain arrays for what every request does, because copying them
 * between threads costs half of what objects cost.
 */

/** `seq` names a command between the calling thread and the writer; it is never used twice, not even by another process. */
type Head<K extends string> = [kind: K, seq: number, nowMs: number];

type AdmitValues = [
  id: number,
  requestId: string,
  /** Latin-1 text of the hash, or the key's id. */
  key: string | number,
  model: string,
  free: boolean,
  funds: FundsValues | null,
  expiresAtMs: number | null,
];
type FundsValues = [
  inputTokens: number,
  inputNanoUsd: bigint,
  outputPicoUsd: bigint,
  min: number,
  wanted: number,
  plan: boolean,
  freeDaily: boolean,
];
type PriceValues = [
  input: bigint | null,
  cacheRead: bigint | null,
  cacheWrite5m: bigint | null,
  cacheWrite1h: bigint | null,
  output: bigint | null,
  image: bigint | null,
];
type UsageValues = [
  input: number,
  cacheRead: number,
  cacheWrite5m: number,
  cacheWrite1h: number,
  output: number,
  reasoning: number,
  images: number,
];
type SettleValues = [
  id: number,
  state: SettleCommand['state'],
  usage: UsageValues,
  usageSource: SettleCommand['usageSource'],
  serviceTier: SettleCommand['serviceTier'],
  latencyMs: number,
  firstEventMs: number | undefined,
  provider: string,
  attempts: number,
  prices: PriceValues,
  multiplierPermille: number,
  costNanoUsd: bigint | undefined,
];

/** A command as posted. */
export type WireCommand =
  | [...Head<'admit'>, ...AdmitValues]
  | [...Head<'settle'>, ...SettleValues]
  | [...Head<'extend'>, command: ExtendCommand]
  | [...Head<'void'>, id: number, reason: VoidReason]
  | [...Head<'windows'>, keyId: number, free: boolean]
  | [...Head<'admin'>, id: string, name: keyof AdminCommands, command: AdminCommands[keyof AdminCommands]]
  | [...Head<'sweep'>]
  | [...Head<'probe'>];

/** `failed`: this command broke and changed nothing. `storage`: the batch could not be written; nothing of it is done. */
export type WireReply =
  | [seq: number, outcome: 'done', value: unknown]
  | [seq: number, outcome: 'failed' | 'storage', message: string, code: string | undefined];

type WindowValues = [limit: WindowState['limit'], max: number, remaining: number, resetAtMs: number];
type AdmittedValues = [
  id: number,
  accountId: number,
  keyId: number,
  held: bigint,
  tokens: number,
  tokensAvailable: number,
  available: bigint,
  windows: WindowValues[],
  expiresAtMs: number | undefined,
];
/** The answer to an admit as posted. */
export type AdmitReply = AdmittedValues | Denied;

export type { AdminReply };

/** An admit as posted. */
export function encodeAdmit(command: AdmitCommand, seq: number, nowMs: number): WireCommand {
  const { id, requestId, key, model, free, funds, expiresAtMs } = command;
  const owner = 'hash' in key ? Buffer.from(key.hash).toString('latin1') : key.id;
  const estimate: FundsValues | null =
    funds === undefined
      ? null
      : [
          funds.inputTokens,
          funds.inputNanoUsd,
          funds.outputPicoUsd,
          funds.outputTokensMin,
          funds.outputTokensWanted,
          funds.plan,
          funds.freeDaily === true,
        ];
  return ['admit', seq, nowMs, id, requestId, owner, model, free, estimate, expiresAtMs ?? null];
}

/** What was posted, as the command it was. */
export function decodeAdmit(wire: [...Head<'admit'>, ...AdmitValues]): AdmitCommand {
  const [, , , id, requestId, owner, model, free, estimate, expiresAtMs] = wire;
  return {
    id,
    requestId,
    key: typeof owner === 'string' ? { hash: Buffer.from(owner, 'latin1') } : { id: owner },
    model,
    free,
    funds: estimate === null ? undefined : estimateOf(estimate),
    ...(expiresAtMs === null ? {} : { expiresAtMs }),
  };
}

function estimateOf(values: FundsValues): FundsEstimate {
  const [inputTokens, inputNanoUsd, outputPicoUsd, outputTokensMin, outputTokensWanted, plan, freeDaily] = values;
  return { inputTokens, inputNanoUsd, outputPicoUsd, outputTokensMin, outputTokensWanted, plan, freeDaily };
}

/** A settle as posted. */
export function encodeSettle(command: SettleCommand, seq: number, nowMs: number): WireCommand {
  const { id, state, usage, usageSource, serviceTier, latencyMs, firstEventMs, provider, attempts, prices } = command;
  const tokens: UsageValues = [
    usage.input,
    usage.cacheRead,
    usage.cacheWrite5m,
    usage.cacheWrite1h,
    usage.output,
    usage.reasoning,
    usage.images,
  ];
  const sheet: PriceValues = [
    prices.input,
    prices.cacheRead,
    prices.cacheWrite5m,
    prices.cacheWrite1h,
    prices.output,
    prices.image,
  ];
  return [
    ...(['settle', seq, nowMs, id, state, tokens, usageSource, serviceTier, latencyMs, firstEventMs] as const),
    ...([provider, attempts, sheet, command.multiplierPermille, command.costNanoUsd] as const),
  ];
}

/** What was posted, as the command it was. */
export function decodeSettle(wire: [...Head<'settle'>, ...SettleValues]): SettleCommand {
  const [, , , id, state, tokens, usageSource, serviceTier, latencyMs, firstEventMs, ...rest] = wire;
  const [provider, attempts, sheet, multiplierPermille, costNanoUsd] = rest;
  return {
    id,
    state,
    usage: usageOf(tokens),
    usageSource,
    serviceTier,
    latencyMs,
    firstEventMs,
    provider,
    attempts,
    prices: sheetOf(sheet),
    multiplierPermille,
    ...(costNanoUsd === undefined ? {} : { costNanoUsd }),
  };
}

function usageOf(tokens: UsageValues): UsageBuckets {
  const [input, cacheRead, cacheWrite5m, cacheWrite1h, output, reasoning, images] = tokens;
  return { input, cacheRead, cacheWrite5m, cacheWrite1h, output, reasoning, images };
}

function sheetOf(values: PriceValues): PriceSheet {
  const [input, cacheRead, cacheWrite5m, cacheWrite1h, output, image] = values;
  return { input, cacheRead, cacheWrite5m, cacheWrite1h, output, image };
}

/** The answer to an admit, to be posted; a denial is rare and goes as it is. */
export function encodeAdmitReply(reply: Admitted | Denied): AdmitReply {
  if (reply.kind === 'denied') return reply;
  const windows = reply.windows.map(
    ({ limit, max, remaining, resetAtMs }): WindowValues => [limit, max, remaining, resetAtMs],
  );
  const { id, accountId, keyId, heldNanoUsd, outputTokens, outputTokensAvailable, availableNanoUsd, expiresAtMs } =
    reply;
  return [
    id,
    accountId,
    keyId,
    heldNanoUsd,
    outputTokens,
    outputTokensAvailable,
    availableNanoUsd,
    windows,
    expiresAtMs,
  ];
}

/** What was posted, as the answer it was. */
export function decodeAdmitReply(reply: AdmitReply): Admitted | Denied {
  if (!Array.isArray(reply)) return reply;
  const [id, accountId, keyId, heldNanoUsd, outputTokens, outputTokensAvailable, availableNanoUsd, windows, at] = reply;
  return {
    kind: 'admitted',
    id,
    accountId,
    keyId,
    heldNanoUsd,
    outputTokens,
    outputTokensAvailable,
    availableNanoUsd,
    windows: windows.map(([limit, max, remaining, resetAtMs]) => ({ limit, max, remaining, resetAtMs })),
    ...(at === undefined ? {} : { expiresAtMs: at }),
  };
}
