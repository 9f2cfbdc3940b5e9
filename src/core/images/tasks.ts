import { create } from '@bufbuild/protobuf';
import { GatewayError, toGatewayError } from '../../errors/gateway-error.ts';
import { type ErrorDetail, ErrorDetailSchema } from '../../gen/tollgate/v1/error_pb.ts';
import type { ImageAnswer } from '../../gen/tollgate/v1/image_pb.ts';
import { nobodyLeaves } from '../starting-call.ts';
import type { Timer } from '../../lib/runtime.ts';
import { keyRevoked, type Running } from '../running.ts';
import { answerEnd } from './image-answer.ts';
import { type AdmittedImages, ImageRun, type ImageRunTools, type KeptDrawing } from './image-run.ts';
import { type NewTask, type StoredTask, taskIdOf, type TaskStore } from './task-store.ts';

/** How often tasks are looked for that nobody works on. */
const lookMs = 10_000;

interface TaskTools extends ImageRunTools {
  readonly store: TaskStore;
  /** What is ended when the gateway stops. */
  readonly running: Running;
  /** Checks and admits a stored task again, under its own id. Throws what it is refused with. */
  readonly readmit: (task: StoredTask) => Promise<AdmittedImages>;
  /** The parts of an answer, all but the last. */
  readonly partsOf: (asked: AdmittedImages, drawing: KeptDrawing) => Iterable<ImageAnswer>;
  readonly slots: number;
  /** How many may wait; more are refused. */
  readonly waitersMax: number;
  /** Told what ends a task that is no failure of its own, for the log. */
  readonly onDefect: (taskId: string, error: unknown) => void;
}

/** A task in line. Without an order it was left by an earlier process, and is admitted again when its turn comes. */
interface Waiting {
  readonly id: string;
  readonly asked?: AdmittedImages;
}

/**
 * The tasks of this process: first come, first served, so many at once. Each is durable before its maker is told of it, and is found again by the next process where
 * this one ends before it. Source: decisions §5.
 */
export class ImageTasks {
  readonly #tools: TaskTools;
  readonly #line: Waiting[] = [];
  #busy = 0;
  /** Those that are being stored or worked on. */
  readonly #held = new Set<string>();
  /** Places that are kept for those that are being checked and stored. */
  #coming = 0;
  #isDraining = false;
  #look: Timer | undefined;

  constructor(tools: TaskTools) {
    this.#tools = tools;
  }

  /** Takes up what an earlier process has left, and from now on what nobody works on because storage failed in its middle. */
  async resume(): Promise<void> {
    await this.#takeUp();
    this.#look = this.#tools.runtime.after(lookMs, () => {
      // What can't be read now is read the next time.
      void this.#takeUp()
        .catch((thrown: unknown) => this.#tools.onDefect('', thrown))
        .finally(() => {
          if (!this.#isDraining) this.#look?.restart(lookMs);
        });
    });
  }

  async #takeUp(): Promise<void> {
    const left = await this.#tools.store.unfinished();
    if (this.#isDraining) return;
    const known = new Set([...this.#held, ...this.#line.map(({ id }) => id)]);
    for (const { id } of left) if (!known.has(id)) this.#line.push({ id });
    this.#next();
  }

  /** Keeps a place in line until what it answers is called, once. Throws `overloaded` where too many run and wait already. */
  reserve(): () => void {
    const { slots, waitersMax } = this.#tools;
    if (this.#busy + this.#line.length + this.#coming >= slots + waitersMax) {
      throw new GatewayError('overloaded', 'Too many image tasks are waiting already.', { retryAfterMs: 10_000 });
    }
    this.#coming += 1;
    return () => {
      this.#coming -= 1;
    };
  }

  /**
   * Stores a task and puts it in line. `beforeStored` does what must be durable before it is; an order that can't be stored is given back.
   */
  async add(asked: AdmittedImages, createdAtMs: number, beforeStored?: () => Promise<void> | undefined): Promise<void> {
    const { order, requestId, admitted, id } = asked;
    const task: NewTask = {
      requestId,
      accountId: admitted.accountId,
      keyId: admitted.keyId,
      endpoint: order.endpoint,
      request: order.request,
      createdAtMs,
    };
    const taskId = taskIdOf(requestId);
    this.#held.add(taskId);
    try {
      await beforeStored?.();
      await this.#tools.store.create(task);
      this.#line.push({ id: taskId, asked });
    } catch (thrown) {
      await this.#tools.ledger.void(id, 'gateway_failure');
      throw thrown;
    } finally {
      this.#held.delete(taskId);
    }
    this.#next();
  }

  /** Begins none from now on, and gives the holds of those that wait back: the next process admits them again. */
  async drain(): Promise<void> {
    this.#isDraining = true;
    this.#look?.cancel();
    const waiting = this.#line.splice(0);
    const held = waiting.flatMap(({ asked }) => asked ?? []);
    // One that can't be given back now is given back at the next start.
    await Promise.allSettled(held.map(({ id }) => this.#tools.ledger.void(id, 'gateway_failure')));
  }

  #next(): void {
    if (this.#isDraining || this.#busy >= this.#tools.slots) return;
    const waiting = this.#line.shift();
    if (waiting === undefined) return;
    this.#busy += 1;
    this.#held.add(waiting.id);
    void this.#work(waiting).finally(() => {
      this.#busy -= 1;
      this.#held.delete(waiting.id);
      this.#next();
    });
    this.#next();
  }

  /** Never rejects: what a task's own end is told by, is stored with it. */
  async #work({ id, asked }: Waiting): Promise<void> {
    try {
      const task = await this.#tools.store.find(id);
      if (task !== undefined) await this.#run(task, asked);
    } catch (thrown) {
      // Storage failed: `resume` finds the task as it is now.
      this.#tools.onDefect(id, thrown);
    }
  }

  async #run(task: StoredTask, before: AdmittedImages | undefined): Promise<void> {
    const { store, ledger, running } = this.#tools;
    if (task.state === 'drawn' && (await this.#wasCharged(task))) return;
    let asked: AdmittedImages;
    try {
      asked = before ?? (await this.#tools.readmit(task));
    } catch (thrown) {
      await this.#fail(task, thrown);
      return;
    }
    if (this.#isDraining) {
      await ledger.void(asked.id, 'gateway_failure');
      return;
    }
    if (ledger.findApiKey(asked.keyId) === undefined) {
      await ledger.void(asked.id, 'cancelled');
      await this.#fail(task, keyRevoked());
      return;
    }
    const run = new ImageRun(this.#tools, asked);
    running.add(run);
    let costNanoUsd: bigint | undefined;
    try {
      costNanoUsd = await this.#draw(task, asked, run);
      await store.completed(task, answerEnd(costNanoUsd));
    } catch (thrown) {
      // It is charged and stays drawn: `resume` completes it.
      if (costNanoUsd !== undefined) throw thrown;
      // One that was cut runs again in the next process.
      if (run.isCut) await store.requeue(task.id);
      else await this.#fail(task, thrown);
    } finally {
      running.delete(run);
    }
  }

  /** Draws and charges a task; answers what it cost, in nano-dollars. */
  async #draw(task: StoredTask, asked: AdmittedImages, run: ImageRun): Promise<bigint> {
    const { store, partsOf } = this.#tools;
    if (task.state === 'drawn') return run.chargeFor(await this.#countDrawn(task));
    try {
      await store.begin(task.id);
    } catch (thrown) {
      await this.#tools.ledger.void(asked.id, 'gateway_failure');
      throw thrown;
    }
    return (await run.run(nobodyLeaves, drawing => store.drawn(task, partsOf(asked, drawing)))).costNanoUsd;
  }

  /** Whether a drawn task was charged before the process ended; then it completes. */
  async #wasCharged(task: StoredTask): Promise<boolean> {
    const found = await this.#tools.ledger.findActivity(task.accountId, task.requestId);
    if (found === undefined) return false;
    await this.#tools.store.completed(task, answerEnd(found.row.costNanoUsd));
    return true;
  }

  async #countDrawn(task: StoredTask): Promise<number> {
    let count = 0;
    for await (const { part } of this.#tools.store.answer(task)) if (part.case === 'image') count += 1;
    return count;
  }

  async #fail(task: StoredTask, thrown: unknown): Promise<void> {
    const error = toGatewayError(thrown);
    if (error.code === 'internal') this.#tools.onDefect(task.id, error.cause ?? error);
    await this.#tools.store.failed(task, errorDetail(error, task.requestId));
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
