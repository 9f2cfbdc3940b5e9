import fc from 'fast-check';
import { expect, test } from 'vitest';
import { takePage, readFilter, readPage } from './model-query.ts';

test('an empty query filters nothing and requests the whole list', () => {
  expect(readFilter({})).toEqual({ endpoint: 0, capability: '', query: '' });
  expect(readPage({})).toEqual({});
});

test('every filter is read', () => {
  expect(
    readFilter({ endpoint: '/v1/images/edits', capability: 'flex', free: 'false', available: 'true', q: 'large' }),
  ).toEqual({ endpoint: 5, capability: 'flex', free: false, available: true, query: 'large' });
});

test('walking forwards or backwards by any page size visits every item once, in order', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.string(), { maxLength: 20 }), fc.integer({ min: 1, max: 7 }), (ids, limit) => {
      const list = ids.map(id => ({ id }));
      const forwards: string[] = [];
      let page = takePage(list, { limit });
      forwards.push(...page.data.map(item => item.id));
      while (page.has_more) {
        page = takePage(list, { limit, afterId: page.last_id ?? '' });
        forwards.push(...page.data.map(item => item.id));
      }
      expect(forwards).toEqual(ids);
      const last = list.at(-1);
      if (last === undefined) return;
      const backwards = [last.id];
      page = takePage(list, { limit, beforeId: last.id });
      backwards.unshift(...page.data.map(item => item.id));
      while (page.has_more) {
        page = takePage(list, { limit, beforeId: page.first_id ?? '' });
        backwards.unshift(...page.data.map(item => item.id));
      }
      expect(backwards).toEqual(ids);
    }),
  );
});
