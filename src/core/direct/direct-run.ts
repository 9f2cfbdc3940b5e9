import type { DirectAnswer } from '../../generation/direct-call.ts';
import { Hold } from '../../generation/hold.ts';
import { type AdmittedOrder, AdmittedRun, type AdmittedRunTools, type UsedUp } from '../admitted-run.ts';
import { limitState } from '../limit-state.ts';
import type { Router } from '../routing/router.ts';
import type { DirectKind, DirectOrder, DirectRequest, DirectResponse, MadeAnswer } from './direct-kind.ts';

/** The tools of one request whose answer is not streamed. */
export interface DirectRunTools extends AdmittedRunTools {
  readonly router: Router;
  /** Returns true if the client may see the route. */
  readonly exposeRoute: () => boolean;
}

/** One admitted request whose answer is not streamed. */
export class DirectRun<
  Request extends DirectRequest,
  Response extends DirectResponse,
  Order extends DirectOrder<Request>,
  Made extends DirectAnswer,
> extends AdmittedRun<Order, MadeAnswer<Response>> {
  readonly #tools: DirectRunTools;
  readonly #kind: DirectKind<Request, Response, Order, Made>;

  constructor(
    tools: DirectRunTools,
    kind: DirectKind<Request, Response, Order, Made>,
    requested: AdmittedOrder<Order>,
  ) {
    super(tools, requested);
    this.#tools = tools;
    this.#kind = kind;
  }

  protected async make(): Promise<MadeAnswer<Response>> {
    const { order, admitted, requestId, telemetry } = this.requested;
    const { request, model } = order;
    const { signal } = this;
    const hold = Hold.of(admitted);
    const routed = await this.#tools.router.perform({
      model: request.model,
      caller: { hold, request },
      requestId,
      operation: this.#kind.operation,
      telemetry,
      course: this.course,
      signal,
      onAttempt: () => this.noteAttempt(),
      attempt: (live, attempt) =>
        this.#kind.attempt(live, order, { hold, request, model: live.model, attempt, signal, watch: telemetry }),
    });
    this.noteAnswer(routed);
    const { answer, route } = routed;
    const { dropped } = answer;
    return this.#kind.finish(order, answer, {
      requestId,
      model: model.id,
      costNanoUsd: 0n,
      limits: admitted.windows.map(limitState),
      route: this.#tools.exposeRoute() ? `${route.provider}/${route.model}` : '',
      warnings: dropped.length === 0 ? [] : [`dropped=${dropped.join(',')}`],
    });
  }

  protected countUsage({ used }: MadeAnswer<Response>): UsedUp {
    return used;
  }
}
