import { RecordState } from '../../../gen/tollgate/v1/account_pb.ts';

const states: Readonly<Record<RecordState, { readonly word: string; readonly look: string }>> = {
  [RecordState.UNSPECIFIED]: { word: 'unknown', look: 'quiet' },
  [RecordState.COMPLETED]: { word: 'settled', look: 'settled' },
  [RecordState.INCOMPLETE]: { word: 'cut short', look: 'pill pill-held' },
  [RecordState.CLIENT_ABORTED]: { word: 'client left', look: 'pill pill-held' },
  [RecordState.UPSTREAM_FAILED]: { word: 'failed', look: 'pill pill-failed' },
};

/** Shows in one word how a request ended. */
export function StateWord({ state }: { readonly state: number }) {
  const { word, look } = states[state as RecordState] ?? states[RecordState.UNSPECIFIED];
  return <span className={look}>{word}</span>;
}
