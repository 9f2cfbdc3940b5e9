import type { Completed, Usage } from '../../gen/tollgate/v1/event_pb.ts';
import type { Json, JsonObject } from '../codec.ts';
import { countIn } from '../json.ts';
import { parseUsageAs, renderUsageAs, type UsageNames } from '../usage-details.ts';
import { extras } from './extras.ts';

const names: UsageNames = {
  input: 'input_tokens',
  output: 'output_tokens',
  inputDetails: 'input_tokens_details',
  outputDetails: 'output_tokens_details',
};

/** Renders the usage of `completed`, with the cost in dollars. */
export function renderUsage(completed: Completed): JsonObject {
  return renderUsageAs(names, extras, completed);
}

/** Returns the usage that an upstream reports; undefined if it reports nothing plausible. */
export function parseUsage(value: Json | undefined): Usage | undefined {
  return parseUsageAs(names, extras, value, details => countIn(details['cached_tokens']));
}
