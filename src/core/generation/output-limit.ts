import { callRules } from '../../generation/guard/call-filter.ts';
import type { MeasuredInput } from '../../generation/tokens.ts';
import type { Admitted } from '../../ledger/ledger.ts';
import type { RequestStory } from '../../telemetry/request-story.ts';
import type { Applicant } from './admission.ts';
import { clientLimit, outputTokensMost } from './funds.ts';

/** What is known of an admitted request. */
export interface AdmittedRequest extends Applicant {
  readonly admitted: Admitted;
  readonly admittedAtMs: number;
  /** What its input is made of; absent: nothing is estimated of it. */
  readonly input?: MeasuredInput | undefined;
  /** An answer that the gateway cuts costs nothing and leaves no record: nobody is there who has had a part of it. */
  readonly freeWhenCut?: boolean | undefined;
  /** Where what becomes known of it is written; undefined: nobody reads it. */
  readonly story?: RequestStory | undefined;
}

/**
 * The most that a model without a known maximum is told when funds are short. Above it none is sent: upstreams refuse limits beyond their own maximum, and the same request
 * must make the same bytes whatever the balance; the slices of the hold end an answer that does outrun its funds.
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
 * Returns whether an answer that is not streamed may be asked for as a whole: the hold covers all that it can come to, and no stop sequence, tool rule or further slice may have to end it in
 * between. Source: decisions §4.
 */
export function mayBeWhole({ request, model, admitted }: AdmittedRequest): boolean {
  if (request.stop.length > 0) return false;
  const { callsMax, callable } = callRules(request);
  if (callsMax !== Infinity || callable !== undefined) return false;
  return admitted.outputTokensAvailable === Infinity || outputTokensMost(request, model) <= admitted.outputTokens;
}
