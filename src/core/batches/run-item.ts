import type { EmbedRequest, EmbedResponse } from '../../gen/tollgate/v1/embedding_pb.ts';
import type { GenerationEvent, Usage } from '../../gen/tollgate/v1/event_pb.ts';
import type { BatchCall, RequestedItem, ResultLine } from '../../generation/batches/batch-codec.ts';
import { noUsage, toBuckets, toUsage } from '../../generation/usage-buckets.ts';
import type { Generations } from '../generation/generations.ts';
import type { AnswerStore } from '../idempotency/replays.ts';
import type { Responses } from '../responses/responses.ts';
import { StartingCall } from '../starting-call.ts';
import type { BatchItem } from './batch-item.ts';

/** The method of the embeddings service that items of batches call. */
export interface EmbeddingAnswers {
  /** Answers an item and stores the answer before it is charged. Rejects with the error that the item gets. */
  answerItem(request: EmbedRequest, item: BatchItem, answerStore: AnswerStore<EmbedResponse>): Promise<EmbedResponse>;
}

/** The services that answer items of batches. */
export interface ItemRunners {
  readonly generations: Generations;
  readonly responses: Responses;
  readonly embeddings: EmbeddingAnswers;
}

/** The cost of an answered item. */
export interface ItemCharge {
  readonly costNanoUsd: bigint;
  readonly usage: Usage;
}

/** An item to run. */
export interface ItemToRun extends BatchItem {
  readonly name: RequestedItem;
  readonly body: BatchCall;
  /** Stores the result durably; the item is charged only after that. */
  readonly keep: (line: ResultLine) => Promise<void>;
}

/**
 * Runs an item as its interface would run the request: admits it, answers it, stores the answer and charges it. Rejects with the error that a client would get; then nothing is charged.
 */
export async function runItem(runners: ItemRunners, item: ItemToRun): Promise<ItemCharge> {
  const { body } = item;
  switch (body.kind) {
    case 'generation':
      return generate(runners, item, body);
    case 'response':
      return respond(runners, item, body);
    case 'embeddings': {
      const answerStore = makeAnswerStore<EmbedResponse>(([answer]) => {
        if (answer === undefined) throw new Error('an answer without vectors');
        return item.keep(body.render(item.name, answer));
      });
      const { costNanoUsd, inputTokens } = await runners.embeddings.answerItem(body.request, item, answerStore);
      return { costNanoUsd, usage: toUsage({ ...noUsage, input: inputTokens }) };
    }
  }
}

async function generate(
  { generations }: ItemRunners,
  { credential, call, batchId, keep, name }: ItemToRun,
  body: BatchCall & { readonly kind: 'generation' },
): Promise<ItemCharge> {
  const { request } = body;
  const { requestId } = call;
  const generation = await generations.begin({ request, credential, requestId, batchId, telemetry: call });
  return new Promise((resolve, reject) => {
    let charge: ItemCharge | undefined;
    generation.start({
      events: events => {
        charge = readCharge(events) ?? charge;
      },
      beforeSettle: rest => keep(body.render(name, rest)),
      end: error => settleOutcome({ error, charge }, resolve, reject),
    });
  });
}

async function respond(
  { responses }: ItemRunners,
  item: ItemToRun,
  body: BatchCall & { readonly kind: 'response' },
): Promise<ItemCharge> {
  const { promise, resolve, reject } = Promise.withResolvers<ItemCharge>();
  let charge: ItemCharge | undefined;
  await responses.answerItem(body.request, item, {
    call: new StartingCall(),
    sink: {
      message: ({ events }) => {
        charge = readCharge(events) ?? charge;
      },
      end: error => settleOutcome({ error, charge }, resolve, reject),
    },
    answerStore: makeAnswerStore(([message]) => {
      if (message?.head === undefined) throw new Error('a response without a head');
      return item.keep(body.render(item.name, message.head, message.events));
    }),
  });
  return promise;
}

function settleOutcome(
  { error, charge }: { readonly error: Error | undefined; readonly charge: ItemCharge | undefined },
  resolve: (charge: ItemCharge) => void,
  reject: (error: Error) => void,
): void {
  if (error !== undefined) reject(error);
  else if (charge === undefined) reject(new Error('an answer that was not charged'));
  else resolve(charge);
}

function readCharge(events: readonly GenerationEvent[]): ItemCharge | undefined {
  const last = events.at(-1)?.event;
  if (last?.case !== 'completed') return undefined;
  return { costNanoUsd: last.value.costNanoUsd, usage: last.value.usage ?? toUsage(toBuckets({})) };
}

/** Returns an answer store that stores complete answers only. */
function makeAnswerStore<Message>(keep: (messages: readonly Message[]) => Promise<void>): AnswerStore<Message> {
  return { keep: (_requestId, rest) => keep(rest), keepFailure: () => Promise.resolve() };
}
