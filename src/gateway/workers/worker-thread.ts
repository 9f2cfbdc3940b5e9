import { Worker } from 'node:worker_threads';
import type { DescService } from '@bufbuild/protobuf';
import { actAs } from '../../ledger/actor.ts';
import type { Actor } from '../../ledger/history.ts';
import { siblingModule } from '../../lib/sibling-module.ts';
import { CallPort } from '../../lib/threads/call-port.ts';
import { readError, writeError } from '../../rpc/port-errors.ts';
import { PortCalls } from '../../rpc/port-transport.ts';
import type { PushTransport } from '../../rpc/push-transport.ts';
import type { Claims } from '../../store/claims.ts';
import type { DocumentCommand } from '../../store/sqlite/documents/document-engine.ts';
import type { ImageType } from '../../generation/images/image-type.ts';
import type { LendingStores } from '../stores.ts';
import { HeldIds } from './held-ids.ts';
import type { SentCommands, SentPort } from './ledger-lane.ts';
import { LedgerRelay } from './ledger-relay.ts';
import type { WorkerData } from './worker-data.ts';

/** The parts of the main thread that a worker uses. */
export interface WorkerDependencies {
  /** The stores of the main thread, which execute the commands that workers send. */
  readonly stores: LendingStores;
  readonly transport: PushTransport;
  readonly services: readonly DescService[];
  /** Called for each request of the worker that was refused or failed. */
  readonly failed: (accountId: bigint, keyId: bigint, code: string) => void;
  /** Called with the part of a request's cost that no funds covered. */
  readonly wroteOff: (id: number, nanoUsd: bigint) => void;
  /** Called if the file of the documents is damaged. */
  readonly documentsLost: (cause: Error) => void;
  readonly metricsText: (reader: 'anyone') => Promise<string>;
  /** Called once when the worker has ended, with the reason and how long it ran. */
  readonly ended: (error: Error, livedMs: number) => void;
}

type Answers = Readonly<Record<string, (...args: never[]) => unknown>>;

/** One worker, on the side of the main thread: executes the worker's commands. */
export class WorkerThread {
  readonly number: number;
  /** Resolves when the worker listens. Rejects with the reason if the worker ends before that. */
  readonly ready: Promise<this>;
  isReady = false;
  readonly #worker: Worker;
  readonly #port: CallPort;
  readonly #relay: LedgerRelay;
  readonly #dependencies: WorkerDependencies;
  readonly #calls: PortCalls;
  readonly #claims: Claims;
  readonly #answers: Answers;
  /** The heartbeat: a number that the worker raises as long as its event loop runs. */
  readonly #pulse: Int32Array;
  readonly #startedAtMs = performance.now();
  readonly #gone = Promise.withResolvers<void>();
  #isGone = false;
  #lastPulse = 0;
  #missedBeats = 0;

  constructor(data: Omit<WorkerData, 'pulse' | 'held'>, dependencies: WorkerDependencies) {
    const pulse = new SharedArrayBuffer(4);
    const held = HeldIds.makeMemory();
    this.number = data.number;
    this.#dependencies = dependencies;
    this.#pulse = new Int32Array(pulse);
    this.#claims = dependencies.stores.allClaims.of(data.number);
    this.#worker = new Worker(siblingModule(import.meta.url, 'worker'), {
      workerData: { ...data, pulse, held } satisfies WorkerData,
    });
    this.#port = new CallPort(this.#worker, {
      answer: (name, args) => this.#answer(name, args),
      writeError,
      readError,
    });
    const { ledger } = dependencies.stores;
    this.#relay = new LedgerRelay(replies => this.#worker.postMessage(replies), ledger, held);
    this.#worker.on('message', (message: unknown) => {
      if (!Array.isArray(message)) return;
      // The casts hold, because only the worker's lane and link post arrays.
      if (message.length === 1) ledger.connect((message as SentPort)[0]);
      else this.#relay.take(message as SentCommands);
    });
    this.#calls = new PortCalls(dependencies.transport, dependencies.services, (name, ...args) =>
      this.#port.notify(name, ...args),
    );
    this.#answers = this.#makeAnswers();
    this.ready = this.#watch();
  }

  tell(name: string, ...args: readonly unknown[]): void {
    if (!this.#isGone) this.#port.notify(name, ...args);
  }

  ask<Reply>(name: string, ...args: readonly unknown[]): Promise<Reply> {
    return this.#port.call<Reply>(name, ...args);
  }

  /** Checks the heartbeat. Returns how many checks in a row, with this one, found that the worker's event loop has not run. */
  countStill(): number {
    const pulse = Atomics.load(this.#pulse, 0);
    this.#missedBeats = pulse === this.#lastPulse ? this.#missedBeats + 1 : 0;
    this.#lastPulse = pulse;
    return this.#missedBeats;
  }

  /** Stops the worker, which first ends its requests. Resolves when it has ended. */
  async stop(): Promise<void> {
    this.tell('stop');
    await this.#gone.promise;
  }

  /** Ends the worker immediately. */
  async kill(): Promise<void> {
    await this.#worker.terminate();
    await this.#gone.promise;
  }

  #watch(): Promise<this> {
    let cause = new Error('The worker ended.');
    this.#worker.on('error', thrown => {
      cause = thrown instanceof Error ? thrown : new Error(String(thrown));
    });
    return new Promise((resolve, reject) => {
      this.#worker.once('exit', () => {
        this.#onExit(cause);
        reject(cause);
      });
      // A rejection is ignored here, because `exit`, above, rejects the promise.
      this.#port.call('ready').then(
        () => {
          this.isReady = true;
          resolve(this);
        },
        () => undefined,
      );
    });
  }

  #onExit(cause: Error): void {
    const { stores, ended } = this.#dependencies;
    this.#isGone = true;
    this.isReady = false;
    this.#port.end(cause);
    this.#calls.end();
    stores.allClaims.end(this.number);
    this.#relay.end();
    this.#gone.resolve();
    ended(cause, performance.now() - this.#startedAtMs);
  }

  #answer(name: string, args: readonly unknown[]): unknown {
    const answer = this.#answers[name];
    // The cast is safe, because the worker sends the arguments that each name takes.
    return answer === undefined ? this.#calls.answer(name, args) : answer(...(args as never[]));
  }

  #makeAnswers(): Answers {
    const { stores, failed, wroteOff, documentsLost, metricsText } = this.#dependencies;
    const { ledger, documents, files } = stores;
    // The cast is safe, because only names of the ledger's methods are sent.
    const methods = ledger as unknown as Readonly<Record<string, (...args: readonly unknown[]) => unknown>>;
    return {
      'ledger.call': (name: string, args: readonly unknown[], actor: Actor) =>
        actAs(actor, () => methods[name]?.(...args)),
      'documents.send': (command: DocumentCommand) => documents.send(command),
      'files.put': (bytes: Uint8Array, type: ImageType) => files.put(bytes, type),
      'files.delete': (name: string) => files.delete(name),
      'claims.take': (name: string, mark: string) => this.#claims.take(name, mark),
      'claims.find': (name: string) => this.#claims.find(name),
      'claims.list': (prefix: string) => this.#claims.list(prefix),
      'claims.release': (name: string) => this.#claims.release(name),
      wroteOff,
      documentsLost,
      failed,
      metricsText,
    };
  }
}
