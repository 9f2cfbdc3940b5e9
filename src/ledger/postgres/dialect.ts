import type { Sendable } from '../../lib/postgres/values.ts';

/**
 * Translates a statement of `src/ledger/reader` from SQLite's dialect to PostgreSQL's: parameters (`?`, `@name`) get numbers and types, and names with capital letters are quoted, because
 * PostgreSQL would fold them. Functions that PostgreSQL lacks are defined by the schema (migrations/0001-initial.sql). `given`: one object with
 * the values by name, or the values of the question marks in order.
 */
export function translate(text: string, given: readonly unknown[]): { text: string; values: Sendable[] } {
  const [first] = given;
  const named = isNamed(first) ? first : undefined;
  const numbers = new Map<string, number>();
  const values: Sendable[] = [];
  let place = 0;
  const parameter = (name: string, value: Sendable): string => {
    let number = numbers.get(name);
    if (number === undefined) {
      values.push(value);
      number = values.length;
      numbers.set(name, number);
    }
    return `$${number}${chooseCast(value)}`;
  };
  const translated = text.replaceAll(token, found => {
    if (found === '?') {
      const value = given[place] as Sendable;
      place += 1;
      return parameter(`? ${place}`, value);
    }
    if (found.startsWith('@')) return parameter(found, (named?.[found.slice(1)] ?? null) as Sendable);
    return found.startsWith("'") || found.startsWith('"') ? found : `"${found}"`;
  });
  return { text: nameSubqueries(translated), values };
}

/** Texts, quoted names, parameters, and names with capital letters. */
const token = /'(?:[^']|'')*'|"[^"]*"|\?|@\w+|\b[a-z]+[A-Z]\w*\b/g;

function isNamed(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !(value instanceof Uint8Array);
}

function chooseCast(value: Sendable): string {
  if (typeof value === 'number' || typeof value === 'bigint') return '::bigint';
  if (value instanceof Uint8Array) return '::bytea';
  // Null stands for an absent id, as in `src/ledger/reader/webhooks.ts`.
  return value === null ? '::bigint' : '::text';
}

/** Names subqueries that have no name, as PostgreSQL 15 requires. */
function nameSubqueries(text: string): string {
  let named = '';
  let count = 0;
  /** For each parenthesis that is open: whether a subquery of a FROM clause begins there. */
  const open: boolean[] = [];
  for (let index = 0; index < text.length; index += 1) {
    const letter = text.charAt(index);
    named += letter;
    if (letter === "'") {
      const end = text.indexOf("'", index + 1);
      named += text.slice(index + 1, end + 1);
      index = end;
    } else if (letter === '(') {
      open.push(/\b(?:FROM|JOIN)\s*$/i.test(text.slice(Math.max(0, index - 8), index)));
    } else if (letter === ')' && open.pop() === true && !hasName.test(text.slice(index + 1))) {
      count += 1;
      named += ` AS part_${count}`;
    }
  }
  return named;
}

/** Matches the text after a subquery if it has a name. */
const hasName =
  /^\s*(?:AS\s+)?(?!WHERE\b|GROUP\b|ORDER\b|LIMIT\b|UNION\b|EXCEPT\b|HAVING\b|JOIN\b|LEFT\b|ON\b)[a-z]\w*/i;
