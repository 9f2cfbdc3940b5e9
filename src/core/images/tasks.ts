import { create } from '@bufbuild/protobuf';
import { GatewayError, toGatewayError } from '../../errors/gateway-error.ts';
import { type ErrorDetail, ErrorDetailSchema } from '../../gen/tollgate/v1/error_pb.ts';
import type { ImageAnswer } from '../../gen/tollgate/v1/image_pb.ts';
import { Rotation } from '../../lib/rotation.ts';
import { uncounted } from '../../store/documents.ts';
import { neverAborted } from '../starting-call.ts';
import type { Timer } from '../../lib/runtime.ts';
import { keyRevoked, type RunningRequests } from '../running-requests.ts';
import { answerEnd } from './image-answer.ts';
import { type AdmittedImages, ImageRun, type ImageRunDependencies, type KeptDrawing } from './image-run.ts';
import { type NewTask, type StoredTask, toTaskId, type TaskStore } from './task-store.ts';

/** How often to look for stored tasks that no process is working on. */
const pollMs = 10_000;

interface TaskDependencies extends ImageRunDependencies {
  readonly store: TaskStore;
  /** The running requests of this process. Tasks are in it while they are drawn, so that a stop of the gateway can interrupt them. */
  readonly running: RunningRequests;
  /** Checks a stored task and admits it again, under the same id. Throws the error if it is refused. */
  readonly readmit: (task: StoredTask) => Promise<AdmittedImages>;
  /** Returns the parts of an answer, except the last one (`answerEnd`). */
  readonly toParts: (requested: AdmittedImages, drawing: KeptDrawing) => Iterable<ImageAnswer>;
  /** How many tasks run at once. */
  readonly slots: number;
  /** How many tasks may wait; further ones are refused. */
  readonly waitersMax: number;
  /** Called for failures that are the gateway's own fault, for the log. `taskId` '': no particular task. */
  readonly onDefect: (taskId: string, error: unknown) => void;
}

/**
 * A task in the queue. `requested` absent: an earlier process left the task; it is admitted again when its turn comes.
 */
interface WaitingTask {
  readonly id: string;
  readonly requested?: AdmittedImages;
}

/**
 * The image tasks of this process: a limited number at once, those of several accounts in rotation. A task is stored before the client gets its id, so that the next process can resume it if this one ends first. Source: docs/interfaces/images.md "Tasks".
 */
export class ImageTasks {
  readonly #dependencies: TaskDependencies;
  readonly #queue = new Rotation<number, WaitingTask>();
  #busy = 0;
  /** The ids of tasks that are being stored or drawn. */
  readonly #inProgress = new Set<string>();
  /** How many places in the queue are reserved for tasks that are still being checked and stored. */
  #reserved = 0;
  #isDraining = false;
  #pollTimer: Timer | undefined;

  constructor(dependencies: TaskDependencies) {
    this.#dependencies = dependencies;
  }

  /** Resumes the tasks that an earlier process left, then looks every 10 seconds for tasks that a storage failure has stopped. */
  async resume(): Promise<void> {
    await this.#queueUnfinished();
    this.#pollTimer = this.#dependencies.runtime.after(pollMs, () => {
      // A task that can't be read now is read at the next poll.
      void this.#queueUnfinished()
        .catch((thrown: unknown) => this.#dependencies.onDefect('', thrown))
        .finally(() => {
          if (!this.#isDraining) this.#pollTimer?.restart(pollMs);
        });
    });
  }

  async #queueUnfinished(): Promise<void> {
    const left = await this.#dependencies.store.unfinished();
    if (this.#isDraining) return;
    const known = new Set([...this.#inProgress, ...this.#queue.list().map(({ id }) => id)]);
    for (const { id, accountId } of left) if (!known.has(id)) this.#queue.add(accountId, { id });
    this.#startNext();
  }

  /**
   * Reserves a place in the queue until the returned function is called; call it once. Throws `overloaded` if too many tasks are running and waiting. The last tenth of the places is only for accounts that have no task waiting.
   */
  reserve(accountId: number): () => void {
    const { slots, waitersMax } = this.#dependencies;
    const kept = this.#queue.countOf(accountId) === 0 ? 0 : Math.floor(waitersMax / 10);
    if (this.#busy + this.#queue.size + this.#reserved >= slots + waitersMax - kept) {
      throw new GatewayError('overloaded', 'Too many image tasks are waiting. Try again later.', {
        retryAfterMs: 10_000,
      });
    }
    this.#reserved += 1;
    return () => {
      this.#reserved -= 1;
    };
  }

  /**
   * Stores a task, whose files have been decoded, and queues it. `beforeStored` stores what must be durable before the task is. If anything can't be stored, voids the task's hold and throws.
   */
  async add(
    requested: AdmittedImages,
    createdAtMs: number,
    beforeStored?: () => Promise<void> | undefined,
  ): Promise<void> {
    const { prepared, requestId, admitted, id } = requested;
    const task: NewTask = {
      requestId,
      accountId: admitted.accountId,
      keyId: admitted.keyId,
      endpoint: prepared.endpoint,
      request: prepared.request,
      createdAtMs,
    };
    const taskId = toTaskId(requestId);
    this.#inProgress.add(taskId);
    try {
      await beforeStored?.();
      await this.#dependencies.store.create(task);
      this.#queue.add(task.accountId, { id: taskId, requested });
    } catch (thrown) {
      await this.#dependencies.ledger.void(id, 'gateway_failure');
      throw thrown;
    } finally {
      this.#inProgress.delete(taskId);
    }
    this.#startNext();
  }

  /** Starts no more tasks, and voids the holds of waiting tasks. The next process admits them again. */
  async drain(): Promise<void> {
    this.#isDraining = true;
    this.#pollTimer?.cancel();
    const waiting = this.#queue.takeAll();
    const admitted = waiting.flatMap(({ requested }) => requested ?? []);
    // A hold that can't be voided now is voided at the next start.
    await Promise.allSettled(admitted.map(({ id }) => this.#dependencies.ledger.void(id, 'gateway_failure')));
  }

  #startNext(): void {
    if (this.#isDraining || this.#busy >= this.#dependencies.slots) return;
    const waiting = this.#queue.takeNext();
    if (waiting === undefined) return;
    this.#busy += 1;
    this.#inProgress.add(waiting.id);
    void this.#work(waiting).finally(() => {
      this.#busy -= 1;
      this.#inProgress.delete(waiting.id);
      this.#startNext();
    });
    this.#startNext();
  }

  /** Draws a task. Never rejects: the task's images or error are stored. */
  async #work({ id, requested }: WaitingTask): Promise<void> {
    try {
      // Counted by the number of tasks that run at once.
      const task = await this.#dependencies.store.find(id, uncounted);
      if (task !== undefined) await this.#run(task, requested);
    } catch (thrown) {
      // Storage failed: a later poll finds the task in the state that is stored, and admits it again. If it was charged already, it stays charged.
      if (requested !== undefined) this.#release(requested);
      this.#dependencies.onDefect(id, thrown);
    }
  }

  /** Voids a hold as soon as the ledger can be written. */
  #release({ id }: AdmittedImages): void {
    this.#dependencies.ledger.void(id, 'gateway_failure').catch(() => undefined);
  }

  async #run(task: StoredTask, before: AdmittedImages | undefined): Promise<void> {
    const { store, ledger, running } = this.#dependencies;
    if (task.state === 'drawn' && (await this.#completeIfCharged(task))) return;
    let requested: AdmittedImages;
    try {
      requested = before ?? (await this.#dependencies.readmit(task));
    } catch (thrown) {
      // The ledger can't be written now; a later poll tries again.
      if (toGatewayError(thrown).code === 'overloaded') throw thrown;
      await this.#fail(task, thrown);
      return;
    }
    if (this.#isDraining) {
      await ledger.void(requested.id, 'gateway_failure');
      return;
    }
    if ((await this.#findKey(requested)) === undefined) {
      await ledger.void(requested.id, 'cancelled');
      await this.#fail(task, keyRevoked());
      return;
    }
    const run = new ImageRun(this.#dependencies, requested, true);
    running.add(run);
    let costNanoUsd: bigint | undefined;
    try {
      costNanoUsd = await this.#draw(task, requested, run);
      await store.completed(task, answerEnd(costNanoUsd));
    } catch (thrown) {
      // The task is charged and its state stays `drawn`: a later poll completes it.
      if (costNanoUsd !== undefined) throw thrown;
      // A task that the stop interrupted is drawn by the next process.
      if (run.isInterrupted) await store.requeue(task.id);
      else await this.#fail(task, thrown);
    } finally {
      running.delete(run);
    }
  }

  async #findKey(requested: AdmittedImages): Promise<unknown> {
    try {
      return await this.#dependencies.ledger.findApiKey(requested.keyId);
    } catch (thrown) {
      this.#release(requested);
      throw thrown;
    }
  }

  /** Draws and charges a task, or only charges it if its images are already stored. Returns its cost in nano-dollars. */
  async #draw(task: StoredTask, requested: AdmittedImages, run: ImageRun): Promise<bigint> {
    const { store, toParts } = this.#dependencies;
    if (task.state === 'drawn') return run.chargeFor(await this.#countDrawn(task));
    try {
      await store.begin(task.id);
    } catch (thrown) {
      await this.#dependencies.ledger.void(requested.id, 'gateway_failure');
      throw thrown;
    }
    return (await run.run(neverAborted, drawing => store.drawn(task, toParts(requested, drawing)))).costNanoUsd;
  }

  /** Completes a drawn task if it was charged before the earlier process ended. Returns whether it was. */
  async #completeIfCharged(task: StoredTask): Promise<boolean> {
    const found = await this.#dependencies.ledger.findActivity(task.accountId, task.requestId);
    if (found === undefined) return false;
    await this.#dependencies.store.completed(task, answerEnd(found.row.costNanoUsd));
    return true;
  }

  async #countDrawn(task: StoredTask): Promise<number> {
    let count = 0;
    for await (const { part } of this.#dependencies.store.answer(task)) if (part.case === 'image') count += 1;
    return count;
  }

  async #fail(task: StoredTask, thrown: unknown): Promise<void> {
    const error = toGatewayError(thrown);
    if (error.code === 'internal') this.#dependencies.onDefect(task.id, error.cause ?? error);
    await this.#dependencies.store.failed(task, errorDetail(error, task.requestId));
  }
}

function errorDetail(error: GatewayError, requestId: string): ErrorDetail {
  return create(ErrorDetailSchema, {
    code: error.code,
    message: error.message,
    param: error.facts.param ?? '',
    tip: error.tip,
    httpStatus: error.facets.http,
    requestId,
    ...(error.facts.retryAfterMs === undefined ? {} : { retryAfterMs: BigInt(Math.ceil(error.facts.retryAfterMs)) }),
    ...(error.retry === undefined ? {} : { shouldRetry: error.retry }),
  });
}
