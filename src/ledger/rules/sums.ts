import type { Rows, SumChange, Usage } from '../rows.ts';
import { toDay, toHour } from './calendar.ts';

/**
 * Returns the sums that a record changes, for the hour and the day of its admission: those of its kind (model, provider and public path) and its key,
 * and those of its key's group, its end user and each of its tags if it has them.
 */
export function listSums(rows: Rows, usage: Usage): SumChange[] {
  const { accountId, admittedAtMs, modelId, providerId, endpointId, keyId, groups, endUserId, tagsId } = usage;
  const [hour, day] = [toHour(admittedAtMs), toDay(admittedAtMs)];
  const sums: SumChange[] = [];
  const add = (grouped: SumChange['grouped'], valueId: number): void => {
    sums.push({ accountId, period: 'hour', grouped, number: hour, valueId, usage });
    sums.push({ accountId, period: 'day', grouped, number: day, valueId, usage });
  };
  add('kind', rows.kindNumber(modelId, providerId, endpointId));
  add('key', keyId);
  // Only the key's own group, which comes first; the groups above it are not counted.
  const [group] = groups;
  if (group !== undefined) add('group', group);
  if (endUserId !== null) add('end_user', endUserId);
  if (tagsId !== null) for (const tagId of rows.tagNumbers(tagsId)) add('tag', tagId);
  return sums;
}
