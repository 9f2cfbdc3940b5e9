import { FinishReason, type Usage, UsageSource } from '../../gen/tollgate/v1/event_pb.ts';
import { completed, finished, started } from '../../generation/events.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { Generations } from '../generation/generations.ts';
import type { RequestedResponse } from './requested-response.ts';
import { type ResponseCaller, ResponseSink, type ResponseSinkDependencies } from './response-sink.ts';
import { toTierFields } from '../../generation/service-tier.ts';

/** The dependencies of prepared responses. */
export interface PreparingDependencies extends ResponseSinkDependencies {
  readonly generations: Generations;
  readonly runtime: Runtime;
}

/**
 * Answers a request that only prepares a later one (`generate: false`): it has no output, costs nothing and has no record. Throws if its model can't be used. Source: docs/interfaces/responses.md "WebSocket".
 */
export async function prepareResponse(
  dependencies: PreparingDependencies,
  requested: RequestedResponse,
  caller: ResponseCaller,
): Promise<void> {
  const { credential, request, requestId, session, previousResponseId } = requested;
  const createdAtMs = dependencies.runtime.now();
  try {
    const { model, tier } = dependencies.generations.resolve(request, credential);
    const sink = new ResponseSink(
      dependencies,
      requested,
      { model: model.id, createdAtMs, limits: [], isFree: true },
      caller,
    );
    const last = [
      finished(0, FinishReason.STOP),
      completed({
        usage: unused,
        usageSource: UsageSource.REPORTED,
        ...toTierFields(tier),
        completedAtMs: BigInt(createdAtMs),
      }),
    ];
    sink.events([started({ requestId, model: model.id, createdAtMs: BigInt(createdAtMs) })]);
    await sink.beforeSettle(last);
    sink.events(last);
    sink.end();
  } catch (thrown) {
    dependencies.sessions.evict(session, previousResponseId);
    throw thrown;
  }
}

const unused: Usage = {
  $typeName: 'tollgate.v1.Usage',
  unpriced: [],
  inputTokens: 0,
  cacheReadTokens: 0,
  cacheWrite5mTokens: 0,
  cacheWrite1hTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
};
