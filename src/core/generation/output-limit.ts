import { callRules } from '../../generation/guard/call-filter.ts';
import type { MeasuredInput } from '../../generation/tokens.ts';
import type { Admitted } from '../../ledger/ledger.ts';
import type { RequestTelemetry } from '../../telemetry/request-telemetry.ts';
import type { BodyRecord } from '../bodies/body-record.ts';
import type { AdmissionRequest } from './admission.ts';
import { clientLimit, outputTokensMost } from './funds.ts';

/** An admitted request and what was measured of it. */
export interface AdmittedRequest extends AdmissionRequest {
  readonly admitted: Admitted;
  readonly admittedAtMs: number;
  /** The parts of its input; absent: nothing is estimated. */
  readonly input?: MeasuredInput | undefined;
  /** If the gateway itself cuts the answer before the client received any of it, it costs nothing and leaves no record. */
  readonly freeIfInterrupted?: boolean | undefined;
  /** Collects what becomes known of the request; undefined: not collected. */
  readonly telemetry?: RequestTelemetry | undefined;
  /** Absent: its bodies are not kept. */
  readonly bodies?: BodyRecord | undefined;
}

/**
 * The output limit sent for a model without a known maximum when funds are short. Above it none is sent: upstreams
 * refuse limits beyond their own maximum, and the same request must make the same bytes whatever the balance; the
 * slices of the hold end an answer that outruns its funds.
 */
const unknownOutputMax = 4_096;

/** Returns the output limit that binds one choice: the client's own, or less if funds can't pay it; undefined if neither binds. */
export function outputLimit({ request, model, admitted }: AdmittedRequest): number | undefined {
  const client = clientLimit(request, model);
  const payable = Math.floor((admitted.outputTokens + admitted.outputTokensAvailable) / (request.candidates ?? 1));
  const wanted = client ?? model.maxOutputTokens ?? unknownOutputMax;
  return payable < wanted ? payable : client;
}

/**
 * Returns whether a non-streamed answer may be requested from the upstream without streaming: the hold covers all it
 * can come to, and no stop sequence, tool rule or further slice may have to end it early. Source:
 * docs/interfaces/README.md "Output limits and stop sequences".
 */
export function mayBeWhole({ request, model, admitted }: AdmittedRequest): boolean {
  if (request.stop.length > 0) return false;
  const { callsMax, callable } = callRules(request);
  if (callsMax !== Infinity || callable !== undefined) return false;
  return admitted.outputTokensAvailable === Infinity || outputTokensMost(request, model) <= admitted.outputTokens;
}
