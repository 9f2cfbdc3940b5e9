import { GatewayError } from '../../errors/gateway-error.ts';
import {
  type CreateTaskRequest,
  type CreateTaskResponse,
  CreateTaskResponseSchema,
  type GetTaskResponse,
  type ImageAnswer,
  ImageAnswerSchema,
  type ImageRequest,
  type ImageService,
  type ImageServiceEditRequest,
  type ImageServiceGenerateRequest,
  type ReadFileResponse,
} from '../../gen/tollgate/v1/image_pb.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import { endpointPath } from '../../generation/endpoints.ts';
import { invalidImageField } from '../../generation/images/check-image-request.ts';
import { type IdSource, requestIdHeader } from '../../lib/ids.ts';
import { pump, type Sink, type StreamControl } from '../../lib/push.ts';
import type { CallContext, PushedService, UnaryContext } from '../../lib/pushed-service.ts';
import type { Documents } from '../../store/documents.ts';
import type { RequestTelemetry } from '../../telemetry/request-telemetry.ts';
import type { AdmitCommand, Credential } from '../../ledger/ledger.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { admitRequest, nameRequest } from '../admit-request.ts';
import { readAttribution } from '../attribution.ts';
import { authenticate } from '../credential.ts';
import { findTelemetry } from '../find-telemetry.ts';
import { HeldContent, type LargeMemory } from '../held-content.ts';
import { idempotencyKey, type KeyedRequest, type AnswerStore, type Replays } from '../idempotency/replays.ts';
import { limitState } from '../limit-state.ts';
import { RunningRequests, stopping } from '../running-requests.ts';
import { answerEnd, answerParts, restoredPart } from './image-answer.ts';
import { decodeFiles } from './inspect.ts';
import { neverAborted, startCall } from '../starting-call.ts';
import { type AdmittedImages, ImageRun, type ImageRunDependencies, type KeptDrawing } from './image-run.ts';
import { imageFunds, prepareImageRequest } from './prepare-request.ts';
import { taskDocument, toTaskId, taskMessage, type StoredTask, TaskStore } from './task-store.ts';
import { ImageTasks } from './tasks.ts';

/** The dependencies of `Images`. */
export interface ImageDependencies extends ImageRunDependencies {
  readonly catalog: Catalog;
  readonly documents: Documents;
  readonly memory: LargeMemory;
  readonly ids: IdSource;
  readonly replays: Replays;
  /** Returns whether the client gets the route's name. */
  readonly exposeRoute: () => boolean;
  /** Returns the URL of the public listener, without a slash at its end. */
  readonly publicUrl: () => string;
  /** `slots`: how many tasks run at once; `waitersMax`: how many more may wait. */
  readonly tasks: { readonly slots: number; readonly waitersMax: number };
  /** Called for failures that are the gateway's own fault, for the log. `taskId` '': no particular task. */
  readonly onDefect: (taskId: string, error: unknown) => void;
}

/** A request, and the credential that makes it. */
interface ImageInput {
  readonly request: ImageRequest;
  readonly endpoint: Endpoint;
  readonly credential: Credential;
  /** The id that the edge has given the request; null: it gave none. */
  readonly edgeRequestId: string | null;
  readonly telemetry: RequestTelemetry | undefined;
}

/** The path of stored images on the public listener. */
export const imageFilesPath = '/v1/images/files';

/** All image requests and image tasks of this process. */
export class Images {
  readonly #dependencies: ImageDependencies;
  readonly #running = new RunningRequests();
  readonly #store: TaskStore;
  readonly #tasks: ImageTasks;
  #isDraining = false;

  constructor(dependencies: ImageDependencies) {
    this.#dependencies = dependencies;
    this.#store = new TaskStore(dependencies.documents, dependencies.runtime);
    this.#tasks = new ImageTasks({
      ...dependencies,
      ...dependencies.tasks,
      store: this.#store,
      running: this.#running,
      readmit: task => this.#readmit(task),
      toParts: (requested, drawing) => this.#parts(requested, drawing, name => name),
    });
  }

  get service(): PushedService<typeof ImageService> {
    return {
      generate: (requested, context, sink) =>
        this.#answer(requested, Endpoint.IMAGE_GENERATIONS, context, {
          message: answer => sink.message({ $typeName: 'tollgate.v1.ImageServiceGenerateResponse', answer }),
          end: error => sink.end(error),
        }),
      edit: (requested, context, sink) =>
        this.#answer(requested, Endpoint.IMAGE_EDITS, context, {
          message: answer => sink.message({ $typeName: 'tollgate.v1.ImageServiceEditResponse', answer }),
          end: error => sink.end(error),
        }),
      createTask: (request, context) => this.#createTask(request, context),
      getTask: ({ taskId }, context, sink) => pump(() => this.#getTask(taskId, context), sink),
      readFile: ({ name }, _, sink) => pump(signal => this.#readFile(name, signal), sink),
    };
  }

  /** Resumes the tasks that an earlier process left. */
  async resume(): Promise<void> {
    await this.#tasks.resume();
  }

  /** Resolves when no image is being drawn; immediately if none is. */
  async idle(): Promise<void> {
    await this.#running.idle();
  }

  /** Refuses new requests and tasks from now on. */
  async drain(): Promise<void> {
    this.#isDraining = true;
    await this.#tasks.drain();
  }

  /** Aborts what is being drawn. Nothing is charged for it; tasks are resumed by the next process. */
  interruptAll(): void {
    this.#running.interruptAll();
  }

  /** Aborts what is being drawn for a revoked key. */
  revoke(keyId: number): void {
    this.#running.revoke(keyId);
  }

  #answer(
    requested: ImageServiceGenerateRequest | ImageServiceEditRequest,
    endpoint: Endpoint,
    context: CallContext,
    sink: Sink<ImageAnswer>,
  ): StreamControl {
    return startCall(sink, async call => {
      const input = await this.#readInput(requested.request, endpoint, context);
      const key = idempotencyKey(context);
      if (key === undefined) {
        call.attach(pump(signal => this.#draw(input, signal), sink));
        return;
      }
      const keyed: KeyedRequest<typeof ImageAnswerSchema> = {
        context,
        credential: input.credential,
        key,
        request: requested,
        answer: ImageAnswerSchema,
        run: (answerStore, kept) => pump(() => this.#draw(input, neverAborted, answerStore), kept),
        restore: ({ part }, facts) => restoredPart(part, { ...facts, toUrl: name => this.#toUrl(name) }),
      };
      call.attach(this.#dependencies.replays.answer(keyed, sink));
    });
  }

  /** Draws and charges the images, then yields the answer. `answerStore` stores the answer before it is charged. */
  async *#draw(
    input: ImageInput,
    signal: AbortSignal,
    answerStore?: AnswerStore<ImageAnswer>,
  ): AsyncGenerator<ImageAnswer, void, undefined> {
    const { admitted, run } = await this.#begin(input);
    try {
      const { answer, costNanoUsd } = await run.run(signal, kept =>
        // Stored by name, because the public URL may have changed when the answer is sent again.
        answerStore?.keep(admitted.requestId, [...this.#parts(admitted, kept, name => name), answerEnd(0n)]),
      );
      yield* this.#parts(admitted, answer, name => this.#toUrl(name));
      yield answerEnd(costNanoUsd);
    } finally {
      this.#running.delete(run);
    }
  }

  async #begin(input: ImageInput): Promise<{ admitted: AdmittedImages; run: ImageRun }> {
    this.#running.beginning();
    try {
      const admitted = await this.#admit(input);
      const run = new ImageRun(this.#dependencies, admitted, false);
      this.#running.add(run);
      return { admitted, run };
    } finally {
      this.#running.begun();
    }
  }

  async #createTask(requested: CreateTaskRequest, context: UnaryContext): Promise<CreateTaskResponse> {
    const input = await this.#readInput(requested.request, requested.endpoint, context);
    const key = idempotencyKey(context);
    if (key === undefined) return this.#enqueue(input, context.signal);
    return this.#dependencies.replays.answerOne({
      context,
      credential: input.credential,
      key,
      request: requested,
      model: input.request.model,
      answer: CreateTaskResponseSchema,
      run: answerStore => this.#enqueue(input, neverAborted, answerStore),
      restore: (response, { limits }) => ({ ...response, limits }),
    });
  }

  async #enqueue(
    input: ImageInput,
    signal: AbortSignal,
    answerStore?: AnswerStore<CreateTaskResponse>,
  ): Promise<CreateTaskResponse> {
    const release = this.#tasks.reserve(input.credential.accountId);
    try {
      const admitted = await this.#admit(input, { durable: true });
      await this.#decodeAdmitted(admitted, signal);
      const { requestId, prepared } = admitted;
      const id = toTaskId(requestId);
      const createdAtMs = this.#dependencies.runtime.now();
      const response: CreateTaskResponse = {
        $typeName: 'tollgate.v1.CreateTaskResponse',
        task: taskMessage({ id, request: prepared.request, state: 'queued', createdAtMs }),
        limits: admitted.admitted.windows.map(limitState),
        requestId,
      };
      await this.#tasks.add(admitted, createdAtMs, () => answerStore?.keep(requestId, [response], taskDocument(id)));
      return response;
    } finally {
      release();
    }
  }

  async *#getTask(taskId: string, context: CallContext): AsyncGenerator<GetTaskResponse, void, undefined> {
    const { accountId } = await authenticate(context, this.#dependencies.ledger, 'api_key');
    const room = new HeldContent({ memory: this.#dependencies.memory, accountId, header: context.requestHeader });
    try {
      yield* this.#readTask(taskId, accountId, room);
    } finally {
      room.made();
    }
  }

  async *#readTask(
    taskId: string,
    accountId: number,
    room: HeldContent,
  ): AsyncGenerator<GetTaskResponse, void, undefined> {
    const task = await this.#store.find(taskId, room, accountId);
    if (task === undefined) throw new GatewayError('not_found', 'There is no such task.', { param: 'task_id' });
    const error = task.state === 'failed' ? await this.#store.error(task) : undefined;
    const typeName = 'tollgate.v1.GetTaskResponse';
    yield { $typeName: typeName, content: { case: 'task', value: taskMessage(task, error) } };
    if (task.state !== 'completed') return;
    await room.again.reserve(task.bytes);
    for await (const { part } of this.#store.answer(task)) {
      // Images are stored by name, because the public URL may have changed since then.
      if (part.case === 'image' && part.value.url !== '') part.value.url = this.#toUrl(part.value.url);
      yield { $typeName: typeName, content: { case: 'answer', value: { $typeName: 'tollgate.v1.ImageAnswer', part } } };
    }
  }

  async *#readFile(name: string, signal: AbortSignal): AsyncGenerator<ReadFileResponse, void, undefined> {
    const file = await this.#dependencies.files.open(name);
    if (file === undefined) throw new GatewayError('not_found', 'There is no such image, or it has expired.');
    try {
      const { type, size, etag, expiresAtMs } = file;
      const facts = { mediaType: type, size: BigInt(size), etag, expiresAtMs: BigInt(expiresAtMs) };
      const typeName = 'tollgate.v1.ReadFileResponse';
      yield { $typeName: typeName, content: { case: 'file', value: { $typeName: 'tollgate.v1.ImageFile', ...facts } } };
      if (signal.aborted) return;
      for (let chunk = await file.read(); chunk.length > 0; chunk = await file.read()) {
        yield { $typeName: typeName, content: { case: 'chunk', value: chunk } };
        if (signal.aborted) return;
      }
    } finally {
      await file.close();
    }
  }

  #toUrl(name: string): string {
    return `${this.#dependencies.publicUrl()}${imageFilesPath}/${name}`;
  }

  #parts(requested: AdmittedImages, drawing: KeptDrawing, toUrl: (name: string) => string): Iterable<ImageAnswer> {
    return answerParts(requested, drawing, { exposeRoute: this.#dependencies.exposeRoute(), toUrl });
  }

  /** Authenticates the caller and returns it with its request. Throws `overloaded` while the gateway stops. */
  async #readInput(request: ImageRequest | undefined, endpoint: Endpoint, context: CallContext): Promise<ImageInput> {
    const credential = await authenticate(context, this.#dependencies.ledger, 'api_key');
    if (this.#isDraining) throw stopping();
    if (request === undefined) throw invalidImageField('request', 'is required');
    const edgeRequestId = context.requestHeader.get(requestIdHeader);
    return { request, endpoint, credential, edgeRequestId, telemetry: findTelemetry(context) };
  }

  /** Decodes the files of an admitted task. If one is damaged, or the signal is aborted, voids the hold and throws. */
  async #decodeAdmitted({ id, prepared, admitted }: AdmittedImages, signal: AbortSignal): Promise<void> {
    try {
      await decodeFiles(prepared.request, admitted.accountId, signal);
    } catch (thrown) {
      await this.#dependencies.ledger.void(id, signal.aborted ? 'cancelled' : 'rejected');
      throw thrown;
    }
  }

  /** Checks that the request can be drawn, and admits it in the ledger. */
  async #admit(
    { request, endpoint, credential, edgeRequestId, telemetry }: ImageInput,
    durability: Pick<AdmitCommand, 'durable'> = {},
  ): Promise<AdmittedImages> {
    const { catalog, ids } = this.#dependencies;
    const prepared = prepareImageRequest(catalog, { request, endpoint }, credential);
    const attributes = { endpoint: endpointPath(endpoint), ...readAttribution(request.attribution) };
    const command = {
      ...nameRequest(ids, edgeRequestId),
      ...durability,
      ...attributes,
      prepared,
      funds: imageFunds(prepared),
      telemetry,
    };
    return admitRequest(this.#dependencies.ledger, command, credential);
  }

  /** Admits a task that an earlier process left, with the models and prices of the current catalogue. The ledger checks which models the key may use. */
  async #readmit({ request, endpoint, ledgerId, requestId, keyId, accountId }: StoredTask): Promise<AdmittedImages> {
    const requested = { request, endpoint };
    const prepared = prepareImageRequest(this.#dependencies.catalog, requested, { allowedModels: null });
    const attributes = { endpoint: endpointPath(endpoint), ...readAttribution(request.attribution) };
    const command = { id: ledgerId, requestId, ...attributes, prepared, funds: imageFunds(prepared) };
    return admitRequest(this.#dependencies.ledger, command, { keyId, accountId });
  }
}
