/** If the charge of a stored answer fails, the ledger may still make it later. The Idempotency-Key stays taken until the ledger has replied. */
import { create } from '@bufbuild/protobuf';
import { afterAll, expect, test } from 'vitest';
import { type AnswerStore, Replays } from '../../src/core/idempotency/replays.ts';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import {
  EmbeddingService,
  type EmbedResponse,
  EmbedResponseSchema,
  EmbedRequestSchema,
} from '../../src/gen/tollgate/v1/embedding_pb.ts';
import { publicRequestId } from '../../src/lib/ids.ts';
import { type Runtime, systemRuntime } from '../../src/lib/runtime.ts';
import { MemoryClaims } from '../../src/store/claims.ts';
import { openSqliteDocuments } from '../../src/store/sqlite/documents/sqlite-documents.ts';
import { makeAdmitCommand, makeHash, makeSettleCommand, openFixture } from '../ledger/fixture.ts';
import { largeMemory } from '../large-memory.ts';

const fixture = await openFixture();
const { clock, dataDir, ledger } = fixture;
const runtime: Runtime = { ...systemRuntime, now: () => clock.now() };
const documents = await openSqliteDocuments({ dataDir, clock, bytesMax: 100_000_000 });
afterAll(async () => {
  await documents.close();
  await fixture.end();
});

/** Simulates two processes. The voids of the first one reach the ledger only after `letVoid` is called. */
const { promise: voidAllowed, resolve: letVoid } = Promise.withResolvers<void>();
const claims = new MemoryClaims();
const slow = {
  findActivity: ledger.findActivity.bind(ledger),
  windows: ledger.windows.bind(ledger),
  void: async (...given: Parameters<typeof ledger.void>) => voidAllowed.then(() => ledger.void(...given)),
};
const one = new Replays({ documents, memory: largeMemory(), ledger: slow, runtime, sharedClaims: claims.of(1) });
const other = new Replays({ documents, memory: largeMemory(), ledger, runtime, sharedClaims: claims.of(2) });

const found = await ledger.findCredential(makeHash('key'));
if (found === undefined) throw new Error('the key of the fixture is missing');
const credential = found;

/** Sends a request with the key "late". */
async function ask(replays: Replays, run: (answerStore: AnswerStore<EmbedResponse>) => Promise<EmbedResponse>) {
  return replays.answerOne({
    context: { requestHeader: new Headers(), service: EmbeddingService, method: EmbeddingService.method.embed },
    credential,
    key: 'late',
    request: create(EmbedRequestSchema, {}),
    answer: EmbedResponseSchema,
    run,
    restore: (response, { costNanoUsd }) => ({ ...response, costNanoUsd }),
  });
}

test('a repeat is refused as in progress until the ledger has replied, and then gets the charged answer', async () => {
  const id = clock.now() * 4096;
  const requestId = publicRequestId(id);
  await ledger.admit(makeAdmitCommand(id, { requestId }));
  const first = ask(one, async answerStore => {
    await answerStore.keep(requestId, [create(EmbedResponseSchema, { model: 'acme/small' })]);
    throw new GatewayError('overloaded', 'The ledger can’t be written.');
  });
  await expect(first).rejects.toMatchObject({ code: 'overloaded' });
  const generated = async (): Promise<EmbedResponse> => {
    throw new Error('it was generated again');
  };
  await expect(ask(one, generated)).rejects.toMatchObject({ code: 'idempotency_in_progress' });
  await expect(ask(other, generated)).rejects.toMatchObject({ code: 'idempotency_in_progress' });
  const { costNanoUsd } = await ledger.settle(makeSettleCommand(id, 5));
  letVoid();
  // The first process keeps the Idempotency-Key until its void is answered.
  for (const replays of [other, one]) {
    await expect
      .poll(() => ask(replays, generated).catch((error: unknown) => error))
      .toMatchObject({ model: 'acme/small', costNanoUsd });
  }
});
