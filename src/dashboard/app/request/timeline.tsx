import {
  type ActivityRecord,
  RecordState,
  type RequestTimeline,
  type RequestAttempt,
} from '../../../gen/tollgate/v1/account_pb.ts';
import { attemptEnd } from '../data/attempt-end.ts';
import { count } from '../data/money.ts';
import { Amount, Duration } from '../parts/amount.tsx';

interface TimelineProps {
  readonly record: ActivityRecord;
  readonly timeline: RequestTimeline;
}

/** Shows how the hold of a request changed: admitted, extended, settled, released. */
export function Timeline({ record, timeline }: TimelineProps) {
  const { admittedNanoUsd, firstEventMs, extensions } = timeline;
  const held = extensions.at(-1)?.heldNanoUsd ?? admittedNanoUsd;
  const back = held - record.costNanoUsd;
  return (
    <section className="panel" aria-label="Timeline">
      <h2>From hold to charge</h2>
      <dl className="facts">
        <dt>Admitted, 0 ms</dt>
        <dd>
          held <Amount nano={admittedNanoUsd} />
        </dd>
        {firstEventMs !== undefined && (
          <>
            <dt>First output</dt>
            <dd>
              after <Duration ms={firstEventMs} />
            </dd>
          </>
        )}
        {extensions.map(({ atMs, heldNanoUsd }, index) => (
          <Extension
            key={`${atMs} ${heldNanoUsd}`}
            atMs={atMs}
            before={extensions[index - 1]?.heldNanoUsd ?? admittedNanoUsd}
            after={heldNanoUsd}
          />
        ))}
        <dt>Settled</dt>
        <dd>
          after <Duration ms={record.latencyMs} />: debited <Amount nano={record.costNanoUsd} />
        </dd>
        {back > 0n && (
          <>
            <dt>Released</dt>
            <dd>
              <Amount nano={back} />
            </dd>
          </>
        )}
        {back < 0n && (
          <>
            <dt>Debited beyond the hold</dt>
            <dd>
              <Amount nano={-back} />
            </dd>
          </>
        )}
      </dl>
    </section>
  );
}

function Extension({
  atMs,
  before,
  after,
}: {
  readonly atMs: bigint;
  readonly before: bigint;
  readonly after: bigint;
}) {
  return (
    <>
      <dt>Extended</dt>
      <dd>
        after <Duration ms={atMs} />: + <Amount nano={after - before} />, held <Amount nano={after} />
      </dd>
    </>
  );
}

/** Why a route was chosen, in words. */
const reasons: Readonly<Record<string, string>> = {
  '': 'the model’s only route',
  priority: 'first in the configured order',
  cheapest: 'the cheapest route',
  fastest: 'the fastest to the first token',
  measured: 'to measure its speed',
  conversation: 'it answered the conversation before',
  fallback: 'the routes before it failed or are resting',
};

/** Lists the attempts, in order. */
export function Attempts({ record, timeline }: TimelineProps) {
  const attempts = timeline.attempts.length > 0 ? timeline.attempts : impliedAttempt(record, timeline);
  return (
    <section className="panel" aria-label="Attempts">
      <h2>Attempts</h2>
      {attempts.length === 0 ? (
        <p className="quiet">No attempt was recorded, because no route answered.</p>
      ) : (
        <div className="scroll" tabIndex={0} role="region" aria-label="Each attempt">
          <table className="plain stacked">
            <thead>
              <tr>
                <th scope="col">Attempt</th>
                <th scope="col">Route</th>
                <th scope="col">Why this one</th>
                <th scope="col" className="right">
                  Began after
                </th>
                <th scope="col" className="right">
                  First words
                </th>
                <th scope="col" className="right">
                  Took
                </th>
                <th scope="col">End</th>
              </tr>
            </thead>
            <tbody>
              {attempts.map((each, index) => (
                <AttemptRow
                  key={`${each.startedMs} ${each.provider}`}
                  number={index + 1}
                  attempt={each}
                  before={attempts[index - 1]}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

type Attempt = Omit<RequestAttempt, '$typeName' | '$unknown'>;

/** Returns the single attempt of a request for which no attempts are stored. */
function impliedAttempt(
  { latencyMs, state }: ActivityRecord,
  { provider, firstEventMs }: RequestTimeline,
): readonly Attempt[] {
  if (provider === '') return [];
  const result = state === RecordState.COMPLETED || state === RecordState.INCOMPLETE ? 'completed' : 'ended';
  const first = firstEventMs === undefined ? {} : { firstEventMs };
  return [{ provider, model: '', reason: '', startedMs: 0n, durationMs: latencyMs, result, ...first }];
}

interface AttemptRowProps {
  readonly number: number;
  readonly attempt: Attempt;
  /** The previous attempt; absent for the first. */
  readonly before: Attempt | undefined;
}

function AttemptRow({ number, attempt, before }: AttemptRowProps) {
  const { provider, model, reason, startedMs, firstEventMs, durationMs, result, status } = attempt;
  const isAgain = before?.provider === provider && before.model === model;
  return (
    <tr>
      <th scope="row">
        <span className="phone-only">Attempt </span>
        {count(number)}
      </th>
      <td data-name="Route">
        {provider} {model !== '' && <code>{model}</code>}
      </td>
      <td data-name="Why this one">{isAgain ? 'the same route again' : (reasons[reason] ?? reason)}</td>
      <td data-name="Began after" className="right">
        <Duration ms={startedMs} />
      </td>
      <td data-name="First words" className="right">
        {firstEventMs === undefined ? '–' : <Duration ms={firstEventMs} />}
      </td>
      <td data-name="Took" className="right">
        <Duration ms={durationMs} />
      </td>
      <td data-name="End" className={fine.has(result) ? 'settled' : 'failed'}>
        {attemptEnd(result)}
        {status !== undefined && ` (HTTP ${status})`}
      </td>
    </tr>
  );
}

/** The results of attempts that are not failures of the route. */
const fine: ReadonlySet<string> = new Set(['completed', 'cut', 'aborted', 'ended']);
