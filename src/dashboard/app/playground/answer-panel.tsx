import { Link } from '@tanstack/react-router';
import { count, dollars } from '../data/money.ts';
import { durationText } from '../data/time.ts';
import { Amount } from '../parts/amount.tsx';
import { useLive } from '../shell/live-context.tsx';
import { Problem } from '../parts/page.tsx';
import type { Answer } from './ask.ts';

/** One model's answer; `error` is absent unless it failed. */
export interface Run {
  readonly model: string;
  readonly answer: Answer;
  readonly isRunning: boolean;
  readonly error?: unknown;
}

/** Shows an answer as it arrives, and its final cost. */
export function AnswerPanel({ run: { model, answer, isRunning, error } }: { readonly run: Run }) {
  const { text, requestId, firstMs, totalMs, costNanoUsd, inputTokens, outputTokens } = answer;
  const held = useLive().message?.running.find(each => each.requestId === requestId)?.heldNanoUsd;
  return (
    <section className="panel" aria-label={`Answer of ${model}`} aria-busy={isRunning}>
      <div className="title" style={{ marginBottom: 8 }}>
        <h2 style={{ margin: 0 }}>{model}</h2>
        {isRunning && (
          <span className="pill pill-held number">
            answering, {held === undefined ? 'money held' : `${dollars(held)} held`}
          </span>
        )}
      </div>
      <div className="answer" tabIndex={0} role="region" aria-label={`Text of ${model}`}>
        {text}
      </div>
      {error !== undefined && <Problem error={error} />}
      <p className="small quiet number" style={{ margin: '8px 0 0' }}>
        {firstMs !== undefined && `first token ${durationText(firstMs)}`}
        {totalMs !== undefined && `, whole ${durationText(totalMs)}`}
        {outputTokens !== undefined && `, ${count(inputTokens ?? 0)} in, ${count(outputTokens)} out`}
      </p>
      {costNanoUsd !== undefined && requestId !== undefined && (
        <p style={{ margin: 0 }}>
          Settled: <Amount nano={costNanoUsd} />{' '}
          <Link to="/activity/$requestId" params={{ requestId }}>
            its receipt
          </Link>
        </p>
      )}
    </section>
  );
}
