/**
 * The timeline of a request from its admission to its charge: its attempts, and the extensions of its hold. Times are in ms since the
 * admission.
 */

/** One attempt at a route. */
export interface RequestAttempt {
  /** The provider's name. */
  readonly provider: string;
  /** The provider's own name of the model. */
  readonly model: string;
  /** Why this route was chosen: a `RouteReason`; '' if the model has only one route. */
  readonly reason: string;
  readonly startedMs: number;
  /** From the start of the attempt to its first event; undefined: no event came. */
  readonly firstEventMs: number | undefined;
  readonly durationMs: number;
  /** How the attempt ended: `completed` or another `AttemptOutcome`. */
  readonly result: string;
  /** The upstream's HTTP status, if it answered with an error. */
  readonly status: number | undefined;
}

/** An extension of a hold. */
export interface HoldExtension {
  readonly atMs: number;
  /** The total hold after the extension. */
  readonly heldNanoUsd: bigint;
}

/** The part of a request's timeline that is stored in the column `course` of its record. */
export interface StoredTimeline {
  readonly attempts: readonly RequestAttempt[];
  readonly extensions: readonly HoldExtension[];
}

type AttemptValues = [
  provider: string,
  model: string,
  reason: string,
  startedMs: number,
  firstEventMs: number | null,
  durationMs: number,
  result: string,
  status: number | null,
];
type TimelineValues = [attempts: AttemptValues[], extensions: [atMs: number, held: string][]];

/** The most entries of each list that are stored: the first ones and the last. */
const entriesMax = 32;

/** Encodes a timeline for storage. Returns undefined if it need not be stored: a single attempt at the model's only route that completed, and no extension. */
export function writeTimeline({ attempts, extensions }: StoredTimeline): string | undefined {
  const [only] = attempts;
  const isPlain = attempts.length <= 1 && extensions.length === 0;
  if (isPlain && (only === undefined || (only.result === 'completed' && only.reason === ''))) return undefined;
  const values: TimelineValues = [
    bounded(attempts).map(each => [
      each.provider,
      each.model,
      each.reason,
      Math.round(each.startedMs),
      each.firstEventMs === undefined ? null : Math.round(each.firstEventMs),
      Math.round(each.durationMs),
      each.result,
      each.status ?? null,
    ]),
    bounded(extensions).map(({ atMs, heldNanoUsd }) => [Math.round(atMs), `${heldNanoUsd}`]),
  ];
  return JSON.stringify(values);
}

function bounded<T>(entries: readonly T[]): readonly T[] {
  return entries.length <= entriesMax ? entries : [...entries.slice(0, entriesMax - 1), ...entries.slice(-1)];
}

/** Decodes a stored timeline. */
export function readTimeline(text: string): StoredTimeline {
  const [attempts, extensions] = JSON.parse(text) as TimelineValues;
  return {
    attempts: attempts.map(([provider, model, reason, startedMs, firstEventMs, durationMs, result, status]) => ({
      provider,
      model,
      reason,
      startedMs,
      firstEventMs: firstEventMs ?? undefined,
      durationMs,
      result,
      status: status ?? undefined,
    })),
    extensions: extensions.map(([atMs, held]) => ({ atMs, heldNanoUsd: BigInt(held) })),
  };
}
