/** Brings answers into a form that is the same in every run: names, order and kinds of members stay, and texts that are no ids, times or secrets. */

const changing: readonly (readonly [RegExp, string])[] = [
  [/^\d{4}-\d{2}-\d{2}T[\d:.]+Z$/, 'TIME'],
  [/^\d{4}-\d{2}-\d{2}$/, 'DAY'],
  [/^sk-[\w…-]+$/, 'SECRET'],
  [/^whsec_.+$/, 'SECRET'],
  [/^(req|resp|conv|msg|evt|file|batch|task)_[\w-]+$/, 'ID'],
  [/^[\da-f]{64}$/, 'HASH'],
  [/^\{".*\}$/, 'JSON'],
];

/** Returns a JSON value with placeholders for what changes from run to run. Lists of objects keep their first entry, because their length depends on earlier tests. */
export function frozenForm(value: unknown): unknown {
  if (typeof value === 'number') return 0;
  if (typeof value === 'string') return textForm(value);
  if (Array.isArray(value))
    return value.filter((entry, index) => index === 0 || typeof entry !== 'object').map(frozenForm);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, frozenForm(member)]));
}

function textForm(text: string): string {
  const whole = changing.find(([form]) => form.test(text))?.[1];
  return whole ?? text.replace(/http:\/\/127\.0\.0\.1:\d+/, 'ORIGIN').replace(/\b\d{4,}\b/g, 'N');
}
