import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { GatewayError } from '../../errors/gateway-error.ts';
import { type ErrorDetail, ErrorDetailSchema } from '../../gen/tollgate/v1/error_pb.ts';
import {
  type CreateTaskRequest,
  CreateTaskRequestSchema,
  type ImageAnswer,
  ImageAnswerSchema,
  type ImageRequest,
  type ImageTask,
  ImageTaskStatus,
} from '../../gen/tollgate/v1/image_pb.ts';
import type { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import type { Clock } from '../../lib/clock.ts';
import { parseLedgerId } from '../../lib/ids.ts';
import {
  type ContentRoom,
  type DocumentFacts,
  type DocumentName,
  type Documents,
  type StoredDocument,
  uncounted,
} from '../../store/documents.ts';

/** How long a task is kept after it ended. Source: docs/interfaces/images.md "Tasks". */
const keptMs = 86_400_000;
/** How long an unfinished task is kept, which is longer than a gateway is ever stopped. */
const unfinishedMs = 365 * keptMs;
const kind = 'image_task';

/** The state of a task. `drawn`: its images are stored, but it is not known whether they were charged; clients see `in_progress`. */
export type TaskState = 'queued' | 'in_progress' | 'drawn' | 'completed' | 'failed';

/** A stored task. */
export interface StoredTask {
  readonly id: string;
  /** The public id of the request that created the task, which also identifies its hold and its record. */
  readonly requestId: string;
  /** The request's id in the ledger. */
  readonly ledgerId: number;
  readonly accountId: number;
  readonly keyId: number;
  readonly endpoint: Endpoint;
  /** `model` is the listed id. */
  readonly request: ImageRequest;
  readonly state: TaskState;
  readonly createdAtMs: number;
  /** About how many bytes it has, with its answer. */
  readonly bytes: number;
}

/** A task to store. */
export type NewTask = Omit<StoredTask, 'id' | 'ledgerId' | 'state' | 'bytes'>;

const taskPrefix = 'task_';
const requestPrefix = 'req_';

/** Returns the id of the task that a request creates. */
export function toTaskId(requestId: string): string {
  return taskPrefix + requestId.slice(requestPrefix.length);
}

/** Returns the name of a task's document. */
export function taskDocument(id: string): DocumentName {
  return { kind, id };
}

/** Returns the ids of the request that created a task; undefined if the gateway can't have made this task id. */
function parseTaskId(taskId: string): { requestId: string; ledgerId: number } | undefined {
  const requestId = requestPrefix + taskId.slice(taskPrefix.length);
  const ledgerId = taskId.startsWith(taskPrefix) ? parseLedgerId(requestId) : undefined;
  return ledgerId === undefined ? undefined : { requestId, ledgerId };
}

/** Stores tasks as documents: the body has the request, the chunks have the answer's parts, or the error. */
export class TaskStore {
  readonly #documents: Documents;
  readonly #clock: Clock;

  constructor(documents: Documents, clock: Clock) {
    this.#documents = documents;
    this.#clock = clock;
  }

  /** Stores a queued task, durably. */
  async create({ requestId, accountId, keyId, endpoint, request, createdAtMs }: NewTask): Promise<void> {
    const id = toTaskId(requestId);
    const outcome = await this.#documents.put({
      kind,
      id,
      accountId,
      apiKeyId: keyId,
      state: 'queued' satisfies TaskState,
      finished: false,
      createdAtMs,
      endsAtMs: createdAtMs + unfinishedMs,
      body: encodeBody(endpoint, request),
    });
    if (outcome.kind !== 'stored') {
      throw new GatewayError('internal', 'The gateway failed.', { cause: new Error(`task ${id}: ${outcome.kind}`) });
    }
  }

  /** Returns an account's task (any account's if no account is given); undefined if there is none with that id. */
  async find(id: string, room: ContentRoom, accountId?: number): Promise<StoredTask | undefined> {
    if (parseTaskId(id) === undefined) return undefined;
    const found = await this.#documents.find({ kind, id }, room, accountId);
    return found && toTask(found);
  }

  /** Returns the tasks that have not ended, oldest first. */
  async unfinished(): Promise<readonly DocumentFacts[]> {
    return this.#documents.unfinished(kind);
  }

  /** Marks a task as running. */
  async begin(id: string): Promise<void> {
    await this.#documents.update({ kind, id, state: 'in_progress' satisfies TaskState });
  }

  /** Marks a task as queued again, unless its images are already stored. */
  async requeue(id: string): Promise<void> {
    const [ifState, state] = ['in_progress', 'queued'] as const satisfies TaskState[];
    await this.#documents.update({ kind, id, ifState, state });
  }

  /** Stores a task's images, so that they are not drawn again. */
  async drawn({ id }: StoredTask, parts: Iterable<ImageAnswer>): Promise<void> {
    const chunks = Array.from(parts, (part, seq) => ({ seq, content: toBinary(ImageAnswerSchema, part) }));
    await this.#documents.update({ kind, id, state: 'drawn' satisfies TaskState, chunks });
  }

  /** Marks a task as charged. `end` is the last part of its answer. */
  async completed(task: StoredTask, end: ImageAnswer): Promise<void> {
    const chunks = [{ seq: lastSeq, content: toBinary(ImageAnswerSchema, end) }];
    await this.#end(task, { state: 'completed', chunks });
  }

  /** Marks a task as failed. It will not be drawn, and costs nothing. */
  async failed(task: StoredTask, error: ErrorDetail): Promise<void> {
    await this.#end(task, { state: 'failed', chunks: [{ seq: lastSeq, content: toBinary(ErrorDetailSchema, error) }] });
  }

  async #end(
    { id, endpoint, request }: StoredTask,
    end: { readonly state: 'completed' | 'failed'; readonly chunks: { seq: number; content: Uint8Array }[] },
  ): Promise<void> {
    // The images in the request are no longer needed.
    const body = encodeBody(endpoint, { ...request, images: [], mask: new Uint8Array() });
    const endsAtMs = this.#clock.now() + keptMs;
    await this.#documents.update({ kind, id, ...end, finished: true, endsAtMs, body });
  }

  /** Yields the parts of a drawn task's answer in order, including the last one if the task is completed. They are small; a reader that keeps all has to reserve memory for them. */
  async *answer({ id }: StoredTask): AsyncGenerator<ImageAnswer, void, undefined> {
    for (let after = -1; ;) {
      const chunks = await this.#documents.chunks({ kind, id }, { after, limit: chunksAtOnce }, uncounted);
      for (const { seq, content } of chunks) {
        yield fromBinary(ImageAnswerSchema, content);
        after = seq;
      }
      if (chunks.length === 0 || after === lastSeq) return;
    }
  }

  async error({ id }: StoredTask): Promise<ErrorDetail | undefined> {
    const [chunk] = await this.#documents.chunks({ kind, id }, { after: lastSeq - 1, limit: 1 }, uncounted);
    return chunk && fromBinary(ErrorDetailSchema, chunk.content);
  }
}

/** Higher than the number of any part: 10 images of 64 MB have 2,600 parts. */
const lastSeq = 1_000_000;
const chunksAtOnce = 16;

function encodeBody(endpoint: Endpoint, request: ImageRequest): Uint8Array {
  const message: CreateTaskRequest = { $typeName: 'tollgate.v1.CreateTaskRequest', endpoint, request };
  return toBinary(CreateTaskRequestSchema, message);
}

function toTask({ id, body, accountId, apiKeyId, state, createdAtMs, bytes }: StoredDocument): StoredTask {
  const ids = parseTaskId(id);
  const { endpoint, request } = fromBinary(CreateTaskRequestSchema, body);
  if (ids === undefined || request === undefined || apiKeyId === undefined || !isTaskState(state)) {
    throw new Error(`task ${id} has a damaged document`);
  }
  return { id, ...ids, accountId, keyId: apiKeyId, endpoint, request, state, createdAtMs, bytes };
}

const statuses: Readonly<Record<TaskState, ImageTaskStatus>> = {
  queued: ImageTaskStatus.QUEUED,
  in_progress: ImageTaskStatus.IN_PROGRESS,
  drawn: ImageTaskStatus.IN_PROGRESS,
  completed: ImageTaskStatus.COMPLETED,
  failed: ImageTaskStatus.FAILED,
};

function isTaskState(state: string): state is TaskState {
  return Object.hasOwn(statuses, state);
}

/** Returns a task as clients see it. */
export function taskMessage(
  { id, request, state, createdAtMs }: Pick<StoredTask, 'id' | 'request' | 'state' | 'createdAtMs'>,
  error?: ErrorDetail,
): ImageTask {
  return {
    $typeName: 'tollgate.v1.ImageTask',
    id,
    model: request.model,
    createdAtMs: BigInt(createdAtMs),
    status: statuses[state],
    ...(error === undefined ? {} : { error }),
  };
}
