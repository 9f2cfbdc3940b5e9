import { Button } from '@mantine/core';
import { type ReactNode, useEffect } from 'react';
import { readFault } from '../data/rpc.ts';
import { CopyAs, type OtherWays } from './copy.tsx';

/** The head of a page: its name, and what can be done on it. */
export function PageTitle({
  name,
  as,
  children,
}: {
  readonly name: string;
  readonly as?: OtherWays;
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
        {as !== undefined && <CopyAs {...as} />}
      </div>
    </div>
  );
}

/** A failed call in the gateway's own words, with its tip, the request's id and a way to try again. */
export function Problem({ error, retry }: { readonly error: unknown; readonly retry?: () => void }) {
  const { message, tip, requestId, code } = readFault(error);
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

/** Says what is missing, why, and what to do about it. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ReactNode }) {
  return (
    <div className="empty">
      <strong>{title}</strong>
      {children}
    </div>
  );
}

/** Room for what is still being read. */
export function Waiting({ height = 120 }: { readonly height?: number }) {
  return (
    <div className="skeleton" style={{ height, marginBottom: 12 }} role="status">
      <span className="visually-hidden">Loading…</span>
    </div>
  );
}

/** One figure with its name and a second line. */
export function Tile({ name, note, isHeld = false, children }: TileProps) {
  return (
    <div className={isHeld ? 'tile tile-held' : 'tile'}>
      <dt>{name}</dt>
      <dd>{children}</dd>
      {note !== undefined && <dd className="note">{note}</dd>}
    </div>
  );
}

interface TileProps {
  readonly name: string;
  readonly note?: ReactNode;
  readonly isHeld?: boolean;
  readonly children: ReactNode;
}

/** What a query has: an error, nothing yet, or a value to show. */
export interface Reading<Value> {
  readonly data: Value | undefined;
  readonly error: unknown;
  readonly refetch: () => unknown;
}

/** Shows a query's value, or why there is none. A value that could not be refreshed stays, with the error above it. */
export function Shown<Value>({ of, height, children }: ShownProps<Value>) {
  const { data, error, refetch } = of;
  return (
    <>
      {error !== null && <Problem error={error} retry={() => void refetch()} />}
      {data !== undefined ? children(data) : error === null && <Waiting {...(height !== undefined && { height })} />}
    </>
  );
}

interface ShownProps<Value> {
  readonly of: Reading<Value>;
  readonly height?: number;
  readonly children: (value: Value) => ReactNode;
}
