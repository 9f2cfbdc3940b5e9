import { GatewayError } from '../../errors/gateway-error.ts';
import {
  type ImageAnswer,
  type ImageHead,
  type ImagesCompleted,
  type ImagesStarted,
  type ImageTask,
  ImageTaskStatus,
} from '../../gen/tollgate/v1/image_pb.ts';
import type { JsonObject } from '../codec.ts';
import { fieldJson, objectIn } from '../json.ts';

/** Assembles the parts of an answer: images, with their bytes if requested. */
export class ImageAnswerFold {
  started: ImagesStarted | undefined;
  completed: ImagesCompleted | undefined;
  readonly #images: { head: ImageHead; chunks: Uint8Array[] }[] = [];

  /** Adds the next part. */
  push({ part }: ImageAnswer): void {
    if (part.case === 'started') this.started = part.value;
    else if (part.case === 'completed') this.completed = part.value;
    else if (part.case === 'image') this.#images.push({ head: part.value, chunks: [] });
    else if (part.case === 'chunk') this.#images.at(-1)?.chunks.push(part.value);
  }

  /** Renders the answer of the Images interface. Throws if parts are missing. */
  render(): JsonObject {
    const { started } = this;
    if (started === undefined || this.completed === undefined) {
      throw new GatewayError('internal', 'The gateway failed.', {
        cause: new Error('an image answer without its end'),
      });
    }
    return {
      ...objectIn(fieldJson(started.extraJson)),
      created: Math.floor(Number(started.createdAtMs) / 1000),
      data: this.#images.map(({ head, chunks }) => imageJson(head, chunks)),
    };
  }
}

function imageJson(head: ImageHead, chunks: readonly Uint8Array[]): JsonObject {
  const own = head.url === '' ? { b64_json: Buffer.concat(chunks).toString('base64') } : { url: head.url };
  return { ...objectIn(fieldJson(head.extraJson)), ...own, revised_prompt: head.revisedPrompt };
}

const statuses: Readonly<Record<ImageTaskStatus, string>> = {
  [ImageTaskStatus.UNSPECIFIED]: 'queued',
  [ImageTaskStatus.QUEUED]: 'queued',
  [ImageTaskStatus.IN_PROGRESS]: 'in_progress',
  [ImageTaskStatus.COMPLETED]: 'completed',
  [ImageTaskStatus.FAILED]: 'failed',
};

/** Renders a task as it is returned when it is created. */
export function renderTask(task: ImageTask): JsonObject {
  return {
    task_id: task.id,
    object: 'image.task',
    status: statuses[task.status] ?? 'queued',
    created: Math.floor(Number(task.createdAtMs) / 1000),
    model: task.model,
  };
}

/** Renders a task with its outcome: `result` is the rendered answer of a completed task, `error` the error of a failed one; null otherwise. */
export function renderWholeTask(task: ImageTask, result: JsonObject | null, error: object | null): object {
  return { ...renderTask(task), result, error };
}
