import { type Batch, BatchState, type File } from '../../gen/tollgate/v1/batch_pb.ts';
import type { JsonObject } from '../codec.ts';
import { toDollars } from '../dollars.ts';
import { isoTime } from '../../lib/clock.ts';

/** Renders a file as the Files interface shows it. */
export function renderFile({ id, filename, purpose, bytes, createdAtMs, expiresAtMs }: File): JsonObject {
  return {
    id,
    object: 'file',
    bytes: Number(bytes),
    created_at: seconds(createdAtMs),
    expires_at: seconds(expiresAtMs),
    filename,
    purpose,
    status: 'processed',
    status_details: null,
  };
}

const statuses: Readonly<Record<BatchState, string>> = {
  [BatchState.UNSPECIFIED]: 'validating',
  [BatchState.VALIDATING]: 'validating',
  [BatchState.FAILED]: 'failed',
  [BatchState.IN_PROGRESS]: 'in_progress',
  [BatchState.FINALIZING]: 'finalizing',
  [BatchState.COMPLETED]: 'completed',
  [BatchState.EXPIRED]: 'expired',
  [BatchState.CANCELLING]: 'cancelling',
  [BatchState.CANCELLED]: 'cancelled',
};

/** Renders a batch as OpenAI's interface shows it. `endpoint`: the path of its items. */
export function renderBatch(batch: Batch, endpoint: string): JsonObject {
  const { state, times, counts, usage } = batch;
  const endedAt = (of: BatchState): number | null => (state === of ? secondsOrNull(times?.endedMs) : null);
  return {
    id: batch.id,
    object: 'batch',
    endpoint,
    errors: batch.faults.length === 0 ? null : { object: 'list', data: batch.faults.map(renderFault) },
    input_file_id: batch.inputFileId,
    completion_window: '24h',
    status: statuses[state] ?? 'validating',
    output_file_id: batch.outputFileId || null,
    error_file_id: batch.errorFileId || null,
    created_at: seconds(times?.createdMs ?? 0n),
    in_progress_at: secondsOrNull(times?.inProgressMs),
    expires_at: seconds(times?.expiresMs ?? 0n),
    finalizing_at: secondsOrNull(times?.finalizingMs),
    completed_at: endedAt(BatchState.COMPLETED),
    failed_at: endedAt(BatchState.FAILED),
    expired_at: endedAt(BatchState.EXPIRED),
    cancelling_at: secondsOrNull(times?.cancellingMs),
    cancelled_at: endedAt(BatchState.CANCELLED),
    request_counts: {
      total: counts?.total ?? 0,
      completed: counts?.completed ?? 0,
      failed: counts?.failed ?? 0,
    },
    metadata: Object.keys(batch.metadata).length === 0 ? null : batch.metadata,
    usage: renderUsage(usage, batch.costNanoUsd),
  };
}

function renderFault({ line, code, message, param }: Batch['faults'][number]): JsonObject {
  return { code, line: line ?? null, message, param: param || null };
}

/** Renders the usage of all items together; input tokens include cached ones. */
function renderUsage(usage: Batch['usage'], costNanoUsd: bigint): JsonObject {
  const cached = usage?.cacheReadTokens ?? 0;
  const written = (usage?.cacheWrite5mTokens ?? 0) + (usage?.cacheWrite1hTokens ?? 0);
  const input = (usage?.inputTokens ?? 0) + cached + written;
  const output = usage?.outputTokens ?? 0;
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cached },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: usage?.reasoningTokens ?? 0 },
    total_tokens: input + output,
    cost: toDollars(costNanoUsd),
  };
}

/** Renders a batch of Messages as Anthropic's interface shows it. */
export function renderMessageBatch(batch: Batch): JsonObject {
  const { state, times, counts } = batch;
  const { total = 0, completed = 0, failed = 0, cancelled = 0, expired = 0 } = counts ?? {};
  const ended = times?.endedMs;
  const isCancelling = state === BatchState.CANCELLING || (times?.cancellingMs !== undefined && ended === undefined);
  return {
    id: batch.id,
    type: 'message_batch',
    processing_status: ended !== undefined ? 'ended' : isCancelling ? 'canceling' : 'in_progress',
    // As in Anthropic's interface, all requests of a batch are shown as `processing` until the batch has ended.
    request_counts:
      ended === undefined
        ? { processing: total, succeeded: 0, errored: 0, canceled: 0, expired: 0 }
        : { processing: 0, succeeded: completed, errored: failed, canceled: cancelled, expired },
    created_at: isoTime(times?.createdMs ?? 0n),
    expires_at: isoTime(times?.expiresMs ?? 0n),
    ended_at: ended === undefined ? null : isoTime(ended),
    cancel_initiated_at: times?.cancellingMs === undefined ? null : isoTime(times.cancellingMs),
    archived_at: null,
    results_url: batch.resultsUrl || null,
  };
}

function seconds(ms: bigint): number {
  return Math.floor(Number(ms) / 1000);
}

function secondsOrNull(ms: bigint | undefined): number | null {
  return ms === undefined ? null : seconds(ms);
}
