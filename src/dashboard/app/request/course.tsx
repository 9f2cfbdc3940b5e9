import {
  type ActivityRecord,
  RecordState,
  type RequestCourse,
  type RequestTry,
} from '../../../gen/tollgate/v1/account_pb.ts';
import { count } from '../data/money.ts';
import { Amount, Duration } from '../parts/amount.tsx';

interface CourseProps {
  readonly record: ActivityRecord;
  readonly course: RequestCourse;
}

/** The hold of a request in the order of time: admitted, extended, settled, given back. */
export function Course({ record, course }: CourseProps) {
  const { admittedNanoUsd, firstEventMs, extensions } = course;
  const held = extensions.at(-1)?.heldNanoUsd ?? admittedNanoUsd;
  const back = held - record.costNanoUsd;
  return (
    <section className="panel" aria-label="Course">
      <h2>From hold to charge</h2>
      <dl className="facts">
        <dt>Admitted, 0 ms</dt>
        <dd>
          held <Amount nano={admittedNanoUsd} />
        </dd>
        {firstEventMs !== undefined && (
          <>
            <dt>First words</dt>
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
            <dt>Given back</dt>
            <dd>
              <Amount nano={back} />
            </dd>
          </>
        )}
        {back < 0n && (
          <>
            <dt>Taken beside the hold</dt>
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

/** Why a route was taken, in words. */
const reasons: Readonly<Record<string, string>> = {
  '': 'the model’s only route',
  priority: 'first in the configured order',
  cheapest: 'the cheapest route',
  fastest: 'the fastest first words',
  measured: 'its speed was to be measured',
  conversation: 'the conversation was on it before',
  fallback: 'the route before it failed',
};

/** The calls that went to routes, in their order. */
export function Tries({ record, course }: CourseProps) {
  const tries = course.tries.length > 0 ? course.tries : impliedTry(record, course);
  return (
    <section className="panel" aria-label="Tries">
      <h2>Tries</h2>
      {tries.length === 0 ? (
        <p className="quiet">Nothing of it was recorded: no route answered.</p>
      ) : (
        <div className="scroll" tabIndex={0} role="region" aria-label="Each try">
          <table className="plain">
            <thead>
              <tr>
                <th scope="col">Try</th>
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
              {tries.map((each, index) => (
                <TryRow key={`${each.startedMs} ${each.provider}`} number={index + 1} attempt={each} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

type Try = Omit<RequestTry, '$typeName' | '$unknown'>;

/** Returns the single attempt of a request whose record says it all. */
function impliedTry({ latencyMs, state }: ActivityRecord, { provider, firstEventMs }: RequestCourse): readonly Try[] {
  if (provider === '') return [];
  const result = state === RecordState.COMPLETED || state === RecordState.INCOMPLETE ? 'completed' : 'ended';
  const first = firstEventMs === undefined ? {} : { firstEventMs };
  return [{ provider, model: '', reason: '', startedMs: 0n, durationMs: latencyMs, result, ...first }];
}

function TryRow({ number, attempt }: { readonly number: number; readonly attempt: Try }) {
  const { provider, model, reason, startedMs, firstEventMs, durationMs, result, status } = attempt;
  return (
    <tr>
      <th scope="row">{count(number)}</th>
      <td>
        {provider} {model !== '' && <code>{model}</code>}
      </td>
      <td>{reasons[reason] ?? reason}</td>
      <td className="right">
        <Duration ms={startedMs} />
      </td>
      <td className="right">{firstEventMs === undefined ? '–' : <Duration ms={firstEventMs} />}</td>
      <td className="right">
        <Duration ms={durationMs} />
      </td>
      <td className={fine.has(result) ? 'settled' : 'failed'}>
        {result.replaceAll('_', ' ')}
        {status !== undefined && ` (HTTP ${status})`}
      </td>
    </tr>
  );
}

/** Ends of an attempt that say nothing against its route. */
const fine: ReadonlySet<string> = new Set(['completed', 'cut', 'aborted', 'ended']);
