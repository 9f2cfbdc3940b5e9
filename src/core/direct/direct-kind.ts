import type { Message } from '@bufbuild/protobuf';
import type { GenMessage } from '@bufbuild/protobuf/codegenv2';
import type { Model } from '../../gen/tollgate/v1/catalog_pb.ts';
import type { LimitState } from '../../gen/tollgate/v1/event_pb.ts';
import type { Attribution, Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import type { DirectAnswer, DirectCall } from '../../generation/direct-call.ts';
import type { PriceSheet } from '../../generation/price.ts';
import type { Credential, FundsEstimate, TextEstimate } from '../../ledger/ledger.ts';
import type { Operation } from '../../telemetry/request-telemetry.ts';
import type { UsedUp } from '../admitted-run.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { LiveRoute } from '../routing/live-routes.ts';

/** The fields that the requests of all direct endpoints have. */
export interface DirectRequest extends Message {
  /** The model's id as the caller wrote it; in a `PreparedRequest`, the listed id. */
  model: string;
  user: string;
  attribution?: Attribution | undefined;
}

/** The fields that the answers of all direct endpoints have, besides the content. */
export interface DirectResponse extends Message {
  requestId: string;
  model: string;
  costNanoUsd: bigint;
  limits: LimitState[];
  route: string;
  warnings: string[];
}

/** The same fields, without those of every protobuf message. */
export type CommonFields = Pick<DirectResponse, Exclude<keyof DirectResponse, keyof Message>>;

/** A checked request, with its model and prices. */
export interface PreparedRequest<Request> {
  /** `model` is the listed id. */
  readonly request: Request;
  readonly model: Model;
  readonly prices: PriceSheet;
  /** The price factor of a batch, in thousandths; absent: the request is not an item of a batch. */
  readonly multiplierPermille?: number;
}

/** The amounts held for a request before it runs. */
export interface DirectEstimate {
  /** The most that the request can cost; undefined: it costs nothing. */
  readonly funds: FundsEstimate | undefined;
  /** The tokens that count towards token limits; absent: none. */
  readonly text?: TextEstimate;
}

/** An answer whose cost is not known yet, and the usage that determines it. */
export interface MadeAnswer<Response> {
  readonly response: Response;
  readonly used: UsedUp;
}

/** The differences between direct endpoints. The part that they share, from admission to settling, is in `DirectAnswers`. */
export interface DirectKind<
  Request extends DirectRequest,
  Response extends DirectResponse,
  Prepared extends PreparedRequest<Request>,
  Made extends DirectAnswer,
> {
  /** Returns the path that a request came on. */
  readonly findEndpoint: (request: Request) => Endpoint;
  readonly operation: Operation;
  /** The schema of the response message. */
  readonly answer: GenMessage<Response>;
  /** Checks a request, finds its model and counts its input. Throws the client's error. Nothing is charged, and no limit is used, yet. */
  prepare(catalog: Catalog, request: Request, credential: Pick<Credential, 'allowedModels'>): Promise<Prepared>;
  /** Returns the most that a request can use, which is held before the first attempt. */
  estimate(prepared: Prepared): DirectEstimate;
  /** Makes one attempt at a route. Throws `UpstreamFailure`, also for an invalid answer. */
  attempt(route: LiveRoute, prepared: Prepared, call: DirectCall<Request>): Promise<Made>;
  /** Returns the answer for the client, and its usage. `common`: the fields that all answers have. */
  finish(prepared: Prepared, made: Made, common: CommonFields): MadeAnswer<Response>;
}
