import type { Variables } from '../config/env.ts';

/**
 * Returns the variables, with other values of the same form for those that are named. What differs between the configuration that is read with these values and the one that is read with the real values comes from the environment, and must not be shown.
 */
export function withDecoys(variables: Variables, names: readonly string[]): Variables {
  const decoys = names.flatMap(name => {
    const value = variables[name] ?? '';
    const isSet = variables[name] !== undefined || variables[`${name}_FILE`] !== undefined;
    return isSet ? [[name, makeDecoy(value)] as const, [`${name}_FILE`, undefined] as const] : [];
  });
  return { ...variables, ...Object.fromEntries(decoys) };
}

function makeDecoy(value: string): string {
  const unlike = (one: string, other: string): string => (value === one ? other : one);
  if (value === 'true' || value === 'false') return unlike('true', 'false');
  const [, sign = '', unit] = /^([-+]?)\d+(?:\.\d+)?\s*([A-Za-z]*)$/.exec(value) ?? [];
  if (unit !== undefined) return unlike(`${sign}1${unit}`, `${sign}2${unit}`);
  const protocol = URL.parse(value)?.protocol;
  if (protocol === 'http:' || protocol === 'https:') {
    return unlike(`${protocol}//one.invalid`, `${protocol}//other.invalid`);
  }
  return unlike('decoy', 'other');
}
