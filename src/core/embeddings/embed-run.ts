import type { EmbedResponse } from '../../gen/tollgate/v1/embedding_pb.ts';
import type { Embedded } from '../../generation/embeddings/embedding-upstream.ts';
import { checkVectors, inForm } from '../../generation/embeddings/vectors.ts';
import { Hold } from '../../generation/hold.ts';
import { noUsage } from '../../generation/usage-buckets.ts';
import { type AdmittedOrder, AdmittedRun, type AdmittedRunTools, type UsedUp } from '../admitted-run.ts';
import { limitState } from '../limit-state.ts';
import type { Router } from '../routing/router.ts';
import { type EmbedOrder, withTexts } from './order.ts';

/** What vectors are made with. */
export interface EmbedRunTools extends AdmittedRunTools {
  readonly router: Router;
  /** Name the route to the client. */
  readonly exposeRoute: () => boolean;
}

/** The answer, its cost not known yet, and what it is charged by. */
interface EmbedAnswer {
  readonly response: EmbedResponse;
  readonly used: UsedUp;
}

/** One admitted request for vectors. */
export class EmbedRun extends AdmittedRun<EmbedOrder, EmbedAnswer> {
  readonly #tools: EmbedRunTools;

  constructor(tools: EmbedRunTools, asked: AdmittedOrder<EmbedOrder>) {
    super(tools, asked);
    this.#tools = tools;
  }

  protected async make(): Promise<EmbedAnswer> {
    const { order, admitted, requestId, story } = this.asked;
    const { request, model } = order;
    const { signal } = this;
    const hold = Hold.of(admitted);
    const { answer, route } = await this.#tools.router.perform({
      model: request.model,
      caller: { hold, request },
      requestId,
      operation: 'embeddings',
      story,
      signal,
      onAttempt: () => this.noteAttempt(),
      attempt: async ({ embeddings, model: name, name: { provider } }, attempt): Promise<Embedded> => {
        if (embeddings === undefined) throw new Error(`${provider} embeds nothing`);
        const asked = embeddings.takesTokenIds ? request : await withTexts(request, model);
        const embedded = await embeddings.embed({ hold, request: asked, model: name, attempt, signal, watch: story });
        checkVectors(embedded.vectors, request);
        return embedded;
      },
    });
    this.noteAnswer(route);
    const { vectors, inputTokens: reported, dropped } = answer;
    // A report of nothing for some input counts as none.
    const isReported = reported !== undefined && reported > 0;
    const inputTokens = isReported ? reported : order.inputTokens;
    return {
      used: {
        state: 'completed',
        usage: { ...noUsage, input: inputTokens },
        usageSource: isReported ? 'reported' : 'estimated',
      },
      response: {
        $typeName: 'tollgate.v1.EmbedResponse',
        requestId,
        model: model.id,
        vectors: vectors.map(vector => inForm(vector, request.form)),
        inputTokens,
        costNanoUsd: 0n,
        limits: admitted.windows.map(limitState),
        route: this.#tools.exposeRoute() ? `${route.provider}/${route.model}` : '',
        warnings: dropped.length === 0 ? [] : [`dropped=${dropped.join(',')}`],
      },
    };
  }

  protected countUsage({ used }: EmbedAnswer): UsedUp {
    return used;
  }
}
