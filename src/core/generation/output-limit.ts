import { callRules } from '../../generation/guard/call-filter.ts';
import { Endpoint, type GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import type { MeasuredInput } from '../../generation/tokens.ts';
import type { Admitted } from '../../ledger/ledger.ts';
import type { RequestTelemetry } from '../../telemetry/request-telemetry.ts';
import type { BodyRecord } from '../bodies/body-record.ts';
import type { AdmissionRequest } from './admission.ts';
import { clientLimit, outputTokensMost } from './funds.ts';

/** An admitted request, and what is collected while it runs. */
export interface AdmittedRequest extends AdmissionRequest {
  readonly admitted: Admitted;
  readonly admittedAtMs: number;
  /** The measured input; absent: it was not measured. */
  readonly input?: MeasuredInput | undefined;
  /** True: if the gateway's stop interrupts the answer, it costs nothing and has no record. */
  readonly freeIfInterrupted?: boolean | undefined;
  /** Collects facts about the request; undefined: they are not collected. */
  readonly telemetry?: RequestTelemetry | undefined;
  /** Collects its bodies; absent: they are not kept. */
  readonly bodies?: BodyRecord | undefined;
}

/**
 * The highest output limit that is derived from the funds if the model's maximum is unknown. If the funds pay for more, no limit is sent, because upstreams refuse limits beyond their maximum, and because the same request must be sent as the same bytes with any larger balance. An answer that outruns its
 * funds then ends at the slices of its hold.
 */
const unknownOutputMax = 4_096;

/** Returns the output limit of one choice: the client's, or less if the funds do not pay for it; undefined if there is none. */
export function outputLimit({ request, model, admitted }: AdmittedRequest): number | undefined {
  const client = clientLimit(request, model);
  const payable = Math.floor((admitted.outputTokens + admitted.outputTokensAvailable) / (request.candidates ?? 1));
  const wanted = client ?? model.maxOutputTokens ?? unknownOutputMax;
  return payable < wanted ? payable : client;
}

/**
 * Returns whether an answer that the client does not stream may be requested from the upstream without streaming: the hold covers the longest possible answer, and no stop sequence, tool rule or further slice can end it early. Source:
 * docs/interfaces/README.md "Output limits and stop sequences".
 */
export function mayBeWhole({ request, model, admitted }: AdmittedRequest): boolean {
  if (request.stop.length > 0) return false;
  const { callsMax, callable } = callRules(request);
  if (callsMax !== Infinity || callable !== undefined) return false;
  return admitted.outputTokensAvailable === Infinity || outputTokensMost(request, model) <= admitted.outputTokens;
}

/**
 * Returns the request without the stop sequences, which the gateway applies itself: providers would also apply them to a prompt that the answer repeats (`echo`).
 */
export function withoutStopSequences(request: GenerateRequest, isRemote: boolean): GenerateRequest {
  return isRemote && request.endpoint === Endpoint.COMPLETIONS ? { ...request, stop: [] } : request;
}
