import { describe, expect, test } from 'vitest';
import { generateMatch } from './schema-pattern.ts';

describe('a pattern', () => {
  test.each([
    '^[A-Z]{2}\\d{4}$',
    '^(foo|bar)+-\\w*$',
    '^\\+?[1-9]\\d{1,14}$',
    '^[^@\\s]+@[^@\\s]+\\.[a-z]{2,}$',
    '^#(?:[0-9a-fA-F]{3}){1,2}$',
    '^(?<year>\\d{4})-(0[1-9]|1[0-2])$',
    '^[^a-z]{3}$',
    '^\\u0041\\x42\\.$',
    '[\\]\\-x]{2}',
    '^.{5,10}$',
    '^a?b*c+d{0}$',
    '',
    'a|b',
    '^\\{\\}$',
    '^{"a":\\d+}$',
  ])('%s is spelled', pattern => {
    const text = generateMatch(pattern);
    expect(text).toBeDefined();
    expect(text).toMatch(new RegExp(pattern));
  });

  test('is as long as requested, if the pattern allows that', () => {
    const text = generateMatch('^[a-z]{2,}(-\\d+)*$', 20, 64) ?? '';
    expect(text.length).toBeGreaterThanOrEqual(20);
    expect(text).toMatch(/^[a-z]{2,}(-\d+)*$/);
  });

  test.each(['(?=a)b', '(?<!a)b', '\\1', '\\p{L}', '(a', 'a)', '[a', 'a{999999}', '((a{900}){900}){900}', '\\'])(
    'for %s no text is made',
    pattern => {
      const start = process.cpuUsage();
      expect(generateMatch(pattern)).toBeUndefined();
      expect(process.cpuUsage(start).user / 1_000).toBeLessThan(100);
    },
  );
});
