import type { WindowState } from '../../errors/gateway-error.ts';
import type { PriceSheet } from '../../generation/price.ts';
import type {
  AdmitCommand,
  Admitted,
  Denied,
  ExtendCommand,
  LimitFilter,
  FundsEstimate,
  KeyOwner,
  SettleCommand,
  Settled,
  Tags,
  TextEstimate,
  VoidReason,
} from '../ledger.ts';
import type { RetentionLimits } from '../history.ts';
import type { DeliveryReport } from '../webhooks.ts';
import { readToolCharges, writeToolCharges } from '../tool-charges.ts';
import { readUnpriced, writeUnpriced } from '../unpriced.ts';
import type { AdminCall } from '../rules/administration.ts';

/**
 * The encoding of commands to the writer and of its replies. The commands that every request sends are plain arrays,
 * because copying these between threads costs half as much as copying objects.
 */

type Head<K extends string> = [kind: K, nowMs: number];

type FundsValues = [
  inputTokens: number,
  inputNanoUsd: bigint,
  outputPicoUsd: bigint,
  min: number,
  wanted: number,
  plan: boolean,
  freeDaily: boolean,
  toolsNanoUsd: bigint,
];
type AdmitValues = [
  id: number,
  requestId: string,
  keyId: number,
  accountId: number | undefined,
  model: string,
  free: boolean,
  funds: FundsValues | null,
  expiresAtMs: number | null,
  durable: boolean,
  text: TextValues | null,
  requests: number,
  endUser: string | undefined,
  endpoint: string,
  tags: Tags | undefined,
  batchId: string | undefined,
];
type TextValues = [inputTokens: number, min: number, wanted: number];
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
  /** See `writePrices`. */
  prices: string,
  multiplierPermille: number,
  costNanoUsd: bigint | undefined,
  providerCostNanoUsd: bigint | undefined,
  timeline: string | undefined,
  /** See `writeToolCharges`. */
  tools: string | null,
  /** See `writeUnpriced`. */
  unpriced: string | null,
];

/** An encoded command. `extension` identifies an extend, even among those of other processes. */
export type WireCommand =
  | [...Head<'admit'>, ...AdmitValues]
  | [...Head<'settle'>, ...SettleValues]
  | [...Head<'extend'>, command: ExtendCommand, extension: number]
  | [...Head<'void'>, id: number, reason: VoidReason]
  | [...Head<'windows'>, keyId: number, free: boolean]
  | [...Head<'refusal'>, keyId: number]
  /** Returns what an admit would decide. */
  | [...Head<'preview'>, admit: [...Head<'admit'>, ...AdmitValues]]
  | [...Head<'admin'>, call: AdminCall]
  | [...Head<'sweep'>]
  /**
   * Writes the current uses of limits from memory to the file: those that match a filter, or those of one limit. Counts
   * them first if they have not been read yet.
   */
  | [...Head<'uses'>, limits: LimitFilter | number]
  /** Does nothing. Its reply comes after a sync of everything that was committed before. */
  | [...Head<'sync'>]
  | [...Head<'probe'>]
  /** Reports the outcome of a delivery attempt. */
  | [...Head<'report'>, report: DeliveryReport]
  /** Writes events of keys that expire soon. */
  | [...Head<'remind'>]
  /** Removes some of the older rows. */
  | [...Head<'prune'>, limits: RetentionLimits];

/** A reply. `failed`: the command failed and changed nothing. `storage`: the batch could not be written; nothing of it was done. */
export type WireReply =
  | [outcome: 'done', value: unknown]
  | [outcome: 'failed' | 'storage', message: string, code: string | undefined];

type WindowValues = [
  limit: WindowState['limit'],
  unit: WindowState['unit'],
  max: number,
  remaining: number,
  resetAtMs: number,
];
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
/** The encoded reply to an admit. */
export type AdmitReply = AdmittedValues | Denied;
/** The encoded reply to a settle. */
export type SettleReply = [kind: Settled['kind'], cost: bigint, writtenOff: bigint];

/**
 * Returns whether the reply to a command must wait for a sync of the disk. Admissions and extensions of the gateway's own
 * requests need not: no client sees them, and after a power cut such a request simply has no answer.
 */
export function waitsForSync(command: WireCommand): boolean {
  switch (command[0]) {
    case 'admit':
      return command[10];
    case 'extend':
      return 'nanoUsd' in command[2];
    case 'windows':
    case 'uses':
    case 'refusal':
    case 'preview':
      return false;
    default:
      return true;
  }
}

/** Encodes an admit. */
export function encodeAdmit(command: AdmitCommand, owner: KeyOwner, nowMs: number): [...Head<'admit'>, ...AdmitValues] {
  const { id, requestId, model, free, funds, expiresAtMs, durable, text, requests = 1, endUser } = command;
  const { endpoint = '', tags, batchId } = command;
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
          funds.toolsNanoUsd ?? 0n,
        ];
  const isDurable = durable === true || expiresAtMs !== undefined;
  return [
    'admit',
    nowMs,
    id,
    requestId,
    owner.id,
    owner.accountId,
    model,
    free,
    estimate,
    expiresAtMs ?? null,
    isDurable,
    encodeText(text),
    requests,
    endUser,
    endpoint,
    tags,
    batchId,
  ];
}

function encodeText(text: TextEstimate | undefined): TextValues | null {
  return text === undefined ? null : [text.inputTokens, text.outputTokensMin, text.outputTokensWanted];
}

/** Decodes an admit. */
export function decodeAdmit(wire: [...Head<'admit'>, ...AdmitValues]): DecodedAdmit {
  const [, , id, requestId, keyId, accountId, model, free, funds, expiresAtMs] = wire;
  const [, , , , , , , , , , , text, requests, endUser, endpoint, tags, batchId] = wire;
  const admission: DecodedAdmit = {
    id,
    requestId,
    model,
    free,
    owner: accountId === undefined ? { id: keyId } : { id: keyId, accountId },
    funds: funds === null ? undefined : decodeFunds(funds),
    requests,
    endpoint,
  };
  // Not spread, which takes ten times as long for fields that are absent.
  if (tags !== undefined) admission.tags = tags;
  if (batchId !== undefined) admission.batchId = batchId;
  if (text !== null) admission.text = decodeText(text);
  if (endUser !== undefined) admission.endUser = endUser;
  if (expiresAtMs !== null) admission.expiresAtMs = expiresAtMs;
  return admission;
}

/** An admit without the hash of its key. */
interface DecodedAdmit extends Omit<AdmitCommand, 'key' | 'durable'> {
  readonly owner: KeyOwner;
  readonly endpoint: string;
  tags?: Tags;
  batchId?: string;
  text?: TextEstimate;
  endUser?: string;
  expiresAtMs?: number;
}

function decodeText([inputTokens, outputTokensMin, outputTokensWanted]: TextValues): TextEstimate {
  return { inputTokens, outputTokensMin, outputTokensWanted };
}

function decodeFunds(values: FundsValues): FundsEstimate {
  const [inputTokens, inputNanoUsd, outputPicoUsd, outputTokensMin, outputTokensWanted, ...rest] = values;
  const [plan, freeDaily, toolsNanoUsd] = rest;
  const text = { inputTokens, outputTokensMin, outputTokensWanted };
  return { ...text, inputNanoUsd, outputPicoUsd, plan, freeDaily, toolsNanoUsd };
}

/** Encodes a settle. */
export function encodeSettle(command: SettleCommand, nowMs: number): WireCommand {
  const { id, state, usage, usageSource, serviceTier, latencyMs, firstEventMs, provider, attempts } = command;
  const { input, cacheRead, cacheWrite5m, cacheWrite1h, output, reasoning, images } = usage;
  const tokens: UsageValues = [input, cacheRead, cacheWrite5m, cacheWrite1h, output, reasoning, images];
  return [
    'settle',
    nowMs,
    id,
    state,
    tokens,
    usageSource,
    serviceTier,
    latencyMs,
    firstEventMs,
    provider,
    attempts,
    findPriceText(command.prices),
    command.multiplierPermille,
    command.costNanoUsd,
    command.providerCostNanoUsd,
    command.timeline,
    writeToolCharges(command.tools),
    writeUnpriced(command.unpriced),
  ];
}

/** Decodes a settle; `prices` stays a text. */
export function decodeSettle(wire: [...Head<'settle'>, ...SettleValues]): DecodedSettle {
  const [, , id, state, tokens, usageSource, serviceTier, latencyMs, firstEventMs, provider, attempts] = wire;
  const [, , , , , , , , , , , prices, multiplierPermille, costNanoUsd, providerCostNanoUsd, timeline, tools] = wire;
  const unpriced = wire[17];
  const [input, cacheRead, cacheWrite5m, cacheWrite1h, output, reasoning, images] = tokens;
  const settlement: DecodedSettle = {
    id,
    state,
    usageSource,
    serviceTier,
    latencyMs,
    firstEventMs,
    provider,
    attempts,
    prices,
    multiplierPermille,
    usage: { input, cacheRead, cacheWrite5m, cacheWrite1h, output, reasoning, images },
    providerCostNanoUsd,
    timeline,
  };
  if (costNanoUsd !== undefined) settlement.costNanoUsd = costNanoUsd;
  if (tools !== null) settlement.tools = readToolCharges(tools);
  if (unpriced !== null) settlement.unpriced = readUnpriced(unpriced);
  return settlement;
}

/** A settle whose prices are a text. */
interface DecodedSettle extends Omit<SettleCommand, 'prices'> {
  readonly prices: string;
  costNanoUsd?: bigint;
  tools?: SettleCommand['tools'];
  unpriced?: SettleCommand['unpriced'];
}

/** The texts of price sheets. The catalogue makes one sheet for all requests of a model. */
const priceTexts = new WeakMap<PriceSheet, string>();

function findPriceText(sheet: PriceSheet): string {
  let text = priceTexts.get(sheet);
  if (text === undefined) {
    text = writePrices(sheet);
    priceTexts.set(sheet, text);
  }
  return text;
}

/** Returns prices as one text, by which the writer recognises them: many settles have the same prices. */
function writePrices({ input, cacheRead, cacheWrite5m, cacheWrite1h, output, image }: PriceSheet): string {
  return `${input ?? ''},${cacheRead ?? ''},${cacheWrite5m ?? ''},${cacheWrite1h ?? ''},${output ?? ''},${image ?? ''}`;
}

/** Returns the prices from a text that `encodeSettle` has written. */
export function readPrices(text: string): PriceSheet {
  const prices = text.split(',').map(price => (price === '' ? null : BigInt(price)));
  const [input = null, cacheRead = null, cacheWrite5m = null, cacheWrite1h = null, output = null, image = null] =
    prices;
  return { input, cacheRead, cacheWrite5m, cacheWrite1h, output, image };
}

/** Encodes the reply to an admit. A denial is rare and is not encoded. */
export function encodeAdmitReply(reply: Admitted | Denied): AdmitReply {
  if (reply.kind === 'denied') return reply;
  const { id, accountId, keyId, heldNanoUsd, outputTokens, outputTokensAvailable, availableNanoUsd, expiresAtMs } =
    reply;
  // Not `map`: see `toDense`.
  const windows: WindowValues[] = [];
  for (const { limit, unit, max, remaining, resetAtMs } of reply.windows)
    windows.push([limit, unit, max, remaining, resetAtMs]);
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

/** Decodes the reply to an admit. */
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
    windows: windows.map(([limit, unit, max, remaining, resetAtMs]) => ({ limit, unit, max, remaining, resetAtMs })),
    ...(at === undefined ? {} : { expiresAtMs: at }),
  };
}

/** Encodes the reply to a settle. */
export function encodeSettleReply({ kind, costNanoUsd, writtenOffNanoUsd }: Settled): SettleReply {
  return [kind, costNanoUsd, writtenOffNanoUsd];
}

/** Decodes the reply to a settle. */
export function decodeSettleReply([kind, costNanoUsd, writtenOffNanoUsd]: SettleReply): Settled {
  return { kind, costNanoUsd, writtenOffNanoUsd };
}
