import type { SumChange, Usage } from '../rows.ts';
import { dayOf, hourOf } from './calendar.ts';

/** Returns the sums that a record raises: of the hour and the day of its admission, for its model and for its key. */
export function listSums(usage: Usage): SumChange[] {
  const { accountId, admittedAtMs, modelId, keyId } = usage;
  const [hour, day] = [hourOf(admittedAtMs), dayOf(admittedAtMs)];
  return [
    { accountId, period: 'hour', grouped: 'model', number: hour, groupId: modelId, usage },
    { accountId, period: 'hour', grouped: 'key', number: hour, groupId: keyId, usage },
    { accountId, period: 'day', grouped: 'model', number: day, groupId: modelId, usage },
    { accountId, period: 'day', grouped: 'key', number: day, groupId: keyId, usage },
  ];
}
