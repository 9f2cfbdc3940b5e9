import { deprecationWarnings } from '../catalog/deprecation.ts';
import type { DirectAnswer } from '../../generation/direct-call.ts';
import { Hold } from '../../generation/hold.ts';
import { type AdmittedRequest, AdmittedRun, type AdmittedRunDependencies, type UsedUp } from '../admitted-run.ts';
import { limitState } from '../limit-state.ts';
import type { DirectKind, PreparedRequest, DirectRequest, DirectResponse, MadeAnswer } from './direct-kind.ts';

/** The dependencies of `DirectRun`. */
export interface DirectRunDependencies extends AdmittedRunDependencies {
  /** Returns true if the client may see the route. */
  readonly exposeRoute: () => boolean;
}

/** One admitted request of a direct endpoint. */
export class DirectRun<
  Request extends DirectRequest,
  Response extends DirectResponse,
  Prepared extends PreparedRequest<Request>,
  Made extends DirectAnswer,
> extends AdmittedRun<Prepared, MadeAnswer<Response>> {
  readonly #dependencies: DirectRunDependencies;
  readonly #kind: DirectKind<Request, Response, Prepared, Made>;

  constructor(
    dependencies: DirectRunDependencies,
    kind: DirectKind<Request, Response, Prepared, Made>,
    requested: AdmittedRequest<Prepared>,
  ) {
    super(dependencies, requested);
    this.#dependencies = dependencies;
    this.#kind = kind;
  }

  protected async make(): Promise<MadeAnswer<Response>> {
    const { prepared, admitted, requestId, telemetry } = this.requested;
    const { request, model } = prepared;
    const { signal } = this;
    const hold = Hold.of(admitted);
    const routed = await this.#dependencies.router.perform({
      model: request.model,
      caller: { hold, request },
      requestId,
      operation: this.#kind.operation,
      telemetry,
      timeline: this.timeline,
      signal,
      onAttempt: () => this.noteAttempt(),
      attempt: (live, attempt, watch) =>
        this.#kind.attempt(live, prepared, { hold, request, model: live.model, attempt, signal, watch }),
    });
    this.noteAnswer(routed);
    const { answer, route } = routed;
    const { dropped } = answer;
    return this.#kind.finish(prepared, answer, {
      requestId,
      model: model.id,
      costNanoUsd: 0n,
      limits: admitted.windows.map(limitState),
      route: this.#dependencies.exposeRoute() ? `${route.provider}/${route.model}` : '',
      warnings: [
        ...deprecationWarnings(model, this.#dependencies.runtime.now()),
        ...(dropped.length === 0 ? [] : [`dropped=${dropped.join(',')}`]),
      ],
    });
  }

  protected countUsage({ used }: MadeAnswer<Response>): UsedUp {
    return used;
  }
}
