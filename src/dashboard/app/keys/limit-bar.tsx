import type { ReactNode } from 'react';
import type { Limit } from '../../../gen/tollgate/v1/account_pb.ts';
import { count, dollars } from '../data/money.ts';
import { fullTime, untilText } from '../data/time.ts';

const permille = 1000n;

/** Formats an amount in the unit of a limit. */
export function limitFigure({ unit }: Pick<Limit, 'unit'>, value: bigint): string {
  return unit === 'usd' ? dollars(value) : `${count(value)} ${unit === 'concurrent' ? 'at once' : unit}`;
}

/** Returns the name of a limit: "Spend a month, account", "Requests a minute, key 3", "Requests at once, group 2, alert only". */
export function limitName({ unit, window, scope, scopeId, action }: Limit): string {
  const what =
    unit === 'usd' ? 'Spend' : unit === 'concurrent' ? 'Requests at once' : unit === 'tokens' ? 'Tokens' : 'Requests';
  const during = window === '' ? '' : window === 'total' ? ' in all' : ` a ${window}`;
  const whose = scope === 'account' ? 'account' : `${scope} ${scopeId}`;
  return `${what}${during}, ${whose}${action === 'alert' ? ', alert only' : ''}`;
}

interface LimitBarProps {
  readonly limit: Limit;
  /** Actions, shown below the bar on the right. */
  readonly children?: ReactNode;
}

/** Shows one limit as a bar: the used part, the part held by running requests (hatched), the rest, and when it resets. */
export function LimitBar({ limit, children }: LimitBarProps) {
  const { max, used, held, raised, resetsAtMs, remaining, locked } = limit;
  const top = raised?.max ?? max;
  const share = (value: bigint): string =>
    `${top === 0n ? 100 : Number(((value > top ? top : value) * permille) / top) / 10}%`;
  const name = limitName(limit);
  return (
    <div>
      <div className="title" style={{ marginBottom: 4 }}>
        <span>
          {name} {locked && <span className="pill">set by the operator</span>}
          {raised !== undefined && <span className="pill pill-held">raised until {fullTime(raised.untilMs)}</span>}
        </span>
        <span className="small number">
          {limit.unit === 'usd' ? dollars(used) : count(used)} of {limitFigure(limit, top)}
        </span>
      </div>
      <div
        className={remaining === 0n ? 'meter meter-full' : 'meter'}
        role="meter"
        aria-label={name}
        aria-valuemin={0}
        aria-valuemax={Number(top)}
        aria-valuenow={Number(used)}
      >
        <div className="meter-used" style={{ width: share(used) }} />
        <div className="meter-held" style={{ width: share(held) }} />
      </div>
      <div className="limit-foot">
        <span className="small quiet number">
          {limitFigure(limit, remaining)} left
          {held > 0n && `, ${limitFigure(limit, held)} held by running requests`}
          {resetsAtMs !== undefined && used + held > 0n && (
            <>
              {', '}
              <span title={fullTime(resetsAtMs)}>resets {untilText(resetsAtMs)}</span>
            </>
          )}
        </span>
        {children}
      </div>
    </div>
  );
}
