import { Button } from '@mantine/core';
import { type ReactNode, useEffect } from 'react';
import { readFault } from '../data/rpc.ts';
import { CopyAs, type OtherWays } from './copy.tsx';

/** The header of a page: its name and its actions. */
export function PageTitle({
  name,
  copyAs,
  children,
}: {
  readonly name: string;
  /** Other ways to get the page's data, for the menu that copies them; absent if there is no menu. */
  readonly copyAs?: OtherWays | readonly OtherWays[];
  readonly children?: ReactNode;
}) {
  useEffect(() => {
    document.title = `${name} · Tollgate`;
  }, [name]);
  return (
    <div className="title">
      <h1>{name}</h1>
      <div className="actions">
        {children}
        {copyAs !== undefined && <CopyAs ways={[copyAs].flat()} />}
      </div>
    </div>
  );
}

interface ProblemProps {
  readonly error: unknown;
  readonly retry?: () => void;
  /** Replaces the gateway's tip; absent: the gateway's tip is shown. */
  readonly tip?: string | undefined;
}

/** Shows a failed call: the gateway's message, its tip, its code, the request id, and a button to retry. */
export function Problem({ error, retry, tip: ownTip }: ProblemProps) {
  const { message, requestId, code, ...fault } = readFault(error);
  const tip = ownTip ?? fault.tip;
  return (
    <div role="alert" className="problem">
      <p>{message}</p>
      {tip !== undefined && <p className="quiet">{tip}</p>}
      {(code ?? requestId) !== undefined && (
        <p className="small quiet">
          {code !== undefined && <code>{code}</code>} {requestId !== undefined && <code>{requestId}</code>}
        </p>
      )}
      {retry !== undefined && (
        <Button size="xs" variant="default" onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}

/** Explains what is missing, why, and what to do about it. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ReactNode }) {
  return (
    <div className="empty">
      <strong>{title}</strong>
      {children}
    </div>
  );
}

/** A placeholder for content that is still loading. */
export function Waiting({ height = 120 }: { readonly height?: number }) {
  return (
    <div className="skeleton" style={{ height, marginBottom: 12 }} role="status">
      <span className="visually-hidden">Loading…</span>
    </div>
  );
}

/** Shows one number with its name and an optional note. `showsHeldMoney`: draw it as held money. */
export function Tile({ name, note, showsHeldMoney = false, children }: TileProps) {
  return (
    <div className={showsHeldMoney ? 'tile tile-held' : 'tile'}>
      <dt>{name}</dt>
      <dd>{children}</dd>
      {note !== undefined && <dd className="note">{note}</dd>}
    </div>
  );
}

interface TileProps {
  readonly name: string;
  readonly note?: ReactNode;
  readonly showsHeldMoney?: boolean;
  readonly children: ReactNode;
}

/** The state of a query: a value or an error, both if a refresh failed, or neither while it loads. */
export interface QueryState<Value> {
  readonly data: Value | undefined;
  readonly error: unknown;
  readonly refetch: () => unknown;
}

/** Shows a query's value, its error, or a placeholder while it loads. If a refresh fails, the error is shown above the last value. */
export function QueryResult<Value>({ query, height, children }: QueryResultProps<Value>) {
  const { data, error, refetch } = query;
  return (
    <>
      {error !== null && <Problem error={error} retry={() => void refetch()} />}
      {data !== undefined ? children(data) : error === null && <Waiting {...(height !== undefined && { height })} />}
    </>
  );
}

interface QueryResultProps<Value> {
  readonly query: QueryState<Value>;
  readonly height?: number;
  readonly children: (value: Value) => ReactNode;
}
