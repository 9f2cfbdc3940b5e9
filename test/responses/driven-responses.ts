/** The core's response service with real stores. The test drives the upstream, and can stop the document store. */
import { createHash } from 'node:crypto';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Catalog } from '../../src/core/catalog/catalog.ts';
import { StoredConversations } from '../../src/core/conversations/stored-conversations.ts';
import { Generations } from '../../src/core/generation/generations.ts';
import { UnseenOutput } from '../../src/core/generation/unseen-output.ts';
import { Replays } from '../../src/core/idempotency/replays.ts';
import { Responses } from '../../src/core/responses/responses.ts';
import { decodeEvents } from '../../src/core/responses/stored-response.ts';
import { textMessage } from '../../src/core/responses/text-message.ts';
import { Router } from '../../src/core/routing/router.ts';
import { ModelSchema } from '../../src/gen/tollgate/v1/catalog_pb.ts';
import { ItemSchema, PartSchema, Role } from '../../src/gen/tollgate/v1/content_pb.ts';
import { DeltaKind, FinishReason, type GenerationEvent } from '../../src/gen/tollgate/v1/event_pb.ts';
import { Delivery, Endpoint, GenerateRequestSchema } from '../../src/gen/tollgate/v1/request_pb.ts';
import {
  CreateResponseRequestSchema,
  type CreateResponseResponse,
  type Response,
  ResponseService,
} from '../../src/gen/tollgate/v1/response_pb.ts';
import {
  completed,
  delta,
  finished,
  itemClosed,
  itemOpened,
  partClosed,
  partOpened,
  started,
} from '../../src/generation/events.ts';
import type { RunningAttempt, Upstream, UpstreamCall, UpstreamReceiver } from '../../src/generation/upstream.ts';
import { idempotencyKeyHeader } from '../../src/lib/call-headers.ts';
import { IdSource } from '../../src/lib/ids.ts';
import type { Sink, StreamControl } from '../../src/lib/push.ts';
import { type Runtime, systemRuntime } from '../../src/lib/runtime.ts';
import { SealedBox } from '../../src/lib/sealed-box.ts';
import { InProcessTransport } from '../../src/rpc/in-process.ts';
import { MemoryClaims } from '../../src/store/claims.ts';
import { type DocumentChange, type Documents, uncounted } from '../../src/store/documents.ts';
import type { UsageRow } from '../../src/ledger/ledger.ts';
import { openSqliteDocuments } from '../../src/store/sqlite/documents/sqlite-documents.ts';
import { openFixture } from '../ledger/fixture.ts';
import { largeMemory } from '../large-memory.ts';

const model = 'acme/large';
const key = `sk-tg-${'a'.repeat(43)}`;

/** An attempt that the test controls. */
export class DrivenAttempt implements RunningAttempt {
  readonly #receiver: UpstreamReceiver;
  isPaused = false;
  isCancelled = false;

  constructor(receiver: UpstreamReceiver) {
    this.#receiver = receiver;
  }

  cancel(): void {
    this.isCancelled = true;
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
  }

  /** Starts the answer with a text. */
  begin(text: string): void {
    const message = create(ItemSchema, { content: { case: 'message', value: { role: Role.ASSISTANT } } });
    const part = create(PartSchema, { content: { case: 'text', value: {} } });
    this.#events(started({}), itemOpened(0, 0, message), partOpened(0, [0, 0], part), toDelta(text));
  }

  /** Adds text. */
  say(text: string): void {
    this.#events(toDelta(text));
  }

  /** Completes the answer. */
  finish(): void {
    this.#events(partClosed(0, [0, 0]), itemClosed(0, 0), finished(0, FinishReason.STOP), completed({}));
    this.#receiver.end();
  }

  /** Sends an item that can't be stored: its status is no 32-bit number. */
  sendUnstorable(): void {
    const message = create(ItemSchema, { content: { case: 'message', value: { role: Role.ASSISTANT } } });
    this.#events(partClosed(0, [0, 0]), itemClosed(0, 0), itemOpened(0, 1, { ...message, status: (2 ** 40) as never }));
  }

  #events(...events: GenerationEvent[]): void {
    this.#receiver.events(events);
  }
}

function toDelta(text: string): GenerationEvent {
  return delta(0, [0, 0], { kind: DeltaKind.TEXT, text });
}

/** Collects what a caller receives. */
export class Caller implements Sink<CreateResponseResponse> {
  readonly messages: CreateResponseResponse[] = [];
  readonly #ended = Promise.withResolvers<Error | undefined>();
  control: StreamControl | undefined;

  message(message: CreateResponseResponse): void {
    this.messages.push(message);
  }

  end(error?: Error): void {
    this.#ended.resolve(error);
  }

  /** Resolves when the call ends, with its error; undefined if it succeeded. */
  get ended(): Promise<Error | undefined> {
    return this.#ended.promise;
  }

  /** The response's id; '' before it is known. */
  get id(): string {
    return this.messages[0]?.head?.id ?? '';
  }

  /** All text that the caller has received. */
  get text(): string {
    return this.messages.map(({ events }) => readText(events)).join('');
  }
}

/** Returns the text in events. */
export function readText(events: readonly GenerationEvent[]): string {
  return events.map(({ event }) => (event.case === 'delta' ? event.value.text : '')).join('');
}

/** The documents of a gateway. While the test holds them, changes of responses wait. */
class HeldDocuments {
  readonly port: Documents;
  #held: PromiseWithResolvers<void> | undefined;
  /** The number of requested changes. */
  changes = 0;

  constructor(documents: Documents) {
    const update = async (change: DocumentChange): ReturnType<Documents['update']> => {
      this.changes += 1;
      await this.#held?.promise;
      return documents.update(change);
    };
    this.port = new Proxy(documents, {
      get: (target, name) => {
        if (name === 'update') return update;
        const member: unknown = Reflect.get(target, name, target);
        return typeof member === 'function' ? member.bind(target) : member;
      },
    });
  }

  hold(): void {
    this.#held = Promise.withResolvers();
  }

  /** Lets waiting and later changes continue. */
  release(): void {
    this.#held?.resolve();
    this.#held = undefined;
  }

  /** Makes waiting changes fail; later ones wait. */
  fail(error: Error): void {
    const failing = this.#held;
    this.hold();
    failing?.reject(error);
  }
}

/** Opens the service; `end` checks the ledger and removes everything. `claims`: shared with a second gateway, whose services `other` calls. */
export async function openResponses(claims?: MemoryClaims) {
  const fixture = await openFixture();
  const hash = createHash('sha256').update(key).digest();
  await fixture.ledger.createKey({ accountId: 1, hash, masked: 'sk-tg-aaaa…aaaa', settings: {} });
  const { clock, dataDir, ledger } = fixture;
  const stored = await openSqliteDocuments({ dataDir, clock, bytesMax: 100_000_000 });
  const documents = new HeldDocuments(stored);
  const runtime: Runtime = { ...systemRuntime, now: () => clock.now() };
  const attempts: DrivenAttempt[] = [];
  let called = Promise.withResolvers<void>();
  let taken = 0;
  const upstream: Upstream = {
    mayPause: false,
    generate(_: UpstreamCall, receiver) {
      const attempt = new DrivenAttempt(receiver);
      attempts.push(attempt);
      called.resolve();
      called = Promise.withResolvers();
      return attempt;
    },
  };
  const routes = new Map([[model, [{ provider: 'acme', model: 'large', priority: 1, weight: 1 }]]]);
  const router = new Router({ config: { providers: [{ name: 'acme', upstream }], routes }, clock, runtime });
  const pricing = { inputPicoUsd: 1_000_000n, outputPicoUsd: 4_000_000n };
  const listed = create(ModelSchema, { id: model, available: true, endpoints: [Endpoint.RESPONSES], pricing });
  const ids = new IdSource(clock, ledger.lastId);
  const replays = new Replays({ documents: documents.port, memory: largeMemory(), ledger, runtime });
  const generations = new Generations({
    ledger,
    router,
    runtime,
    ids,
    replays,
    catalog: new Catalog({ models: [listed], aliases: new Map() }, () => true),
    exposeRoute: () => false,
    findTolerance: () => 1,
    answerBytesMax: () => ({ choice: 128 << 20, whole: 64 << 20 }),
    choicesMax: () => ({ all: 1000, account: 1000 }),
    unseenOutput: new UnseenOutput(),
  });
  const box = new SealedBox(['a secret of the tests, long enough']);
  const defects: { readonly responseId: string; readonly error: unknown }[] = [];
  const tools = {
    onDefect: (responseId: string, error: unknown) => void defects.push({ responseId, error }),
    documents: documents.port,
    ledger,
    generations,
    replays,
    runtime,
    ids,
    box,
    memory: largeMemory(),
    sessionMemory: () => ({ max: 256 << 20, ownerMax: 64 << 20 }),
    lifetimeMs: 3_600_000,
  };
  const open = (owner: number): Responses => {
    const own = (claims ?? new MemoryClaims()).of(owner);
    const kept = new StoredConversations({ ...tools, clock: runtime, claims: own });
    return new Responses({ ...tools, kept, sharedClaims: claims === undefined ? undefined : own });
  };
  const responses = open(1);
  if (claims !== undefined) await responses.recover();
  const transport = new InProcessTransport().service(ResponseService, responses.service);
  const other = new InProcessTransport().service(ResponseService, open(2).service);
  const headers = (more: Record<string, string> = {}) => new Headers({ authorization: `Bearer ${key}`, ...more });
  return {
    documents,
    attempts,
    defects,
    responses,
    other,
    headers,
    /** Waits for the next attempt, and returns it. */
    async attempt(): Promise<DrivenAttempt> {
      while (attempts.length <= taken) await called.promise;
      taken += 1;
      return attempts[taken - 1] ?? Promise.reject(new Error('no attempt'));
    },
    /** Creates a response as a stream. */
    create(requested: MessageInitShape<typeof CreateResponseRequestSchema> = {}, repeatKey?: string): Caller {
      const caller = new Caller();
      const request = create(CreateResponseRequestSchema, {
        request: create(GenerateRequestSchema, {
          model,
          endpoint: Endpoint.RESPONSES,
          delivery: Delivery.STREAMED,
          items: [textMessage(Role.USER, 'Hello.')],
        }),
        ...requested,
      });
      const sent = headers(repeatKey === undefined ? {} : { [idempotencyKeyHeader]: repeatKey });
      caller.control = transport.push(ResponseService.method.createResponse, request, sent, caller);
      return caller;
    },
    /** Returns a response; undefined if it is not found. */
    async find(id: string): Promise<Response | undefined> {
      const request = { $typeName: 'tollgate.v1.GetResponseRequest' as const, id, include: [] };
      return (await transport.ask(ResponseService.method.getResponse, request, headers())).response;
    },
    /** Returns the text in a response's stored events. */
    async storedText(id: string): Promise<string> {
      const chunks = await stored.chunks({ kind: 'response', id }, { after: -1, limit: 100 }, uncounted);
      return readText(chunks.flatMap(({ content }) => decodeEvents(content)));
    },
    /** Returns the record of a response's request; undefined if there is none. */
    async record(responseId: string): Promise<UsageRow | undefined> {
      return (await ledger.findActivity(1, responseId.replace('resp_', 'req_')))?.row;
    },
    async held(): Promise<bigint> {
      return (await ledger.findAccount(1))?.held ?? -1n;
    },
    async end(): Promise<void> {
      await stored.close();
      await fixture.end();
    },
  };
}
