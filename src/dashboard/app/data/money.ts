/** Returns nano-dollars as dollars, exactly. There are always six decimals, so that a changing number keeps its width, or nine if the last three are not zero. */
export function dollars(nano: bigint): string {
  const digits = decimals(nano, 9);
  return `${digits.sign}$${digits.whole}.${digits.fraction.replace(/000$/, '')}`;
}

/** Returns all nine decimals, for titles and for copying. */
export function fullDollars(nano: bigint): string {
  const { sign, whole, fraction } = decimals(nano, 9);
  return `${sign}$${whole}.${fraction}`;
}

/** Returns the price of a token in pico-dollars as dollars per million tokens: "$1", "$0.075". */
export function perMillion(pico: bigint): string {
  return `$${trimmed(pico, 6)}`;
}

/** Returns a price in pico-dollars as dollars: "$0.04". */
export function perOne(pico: bigint): string {
  return `$${trimmed(pico, 12)}`;
}

/** Returns an amount as the shortest decimal text: "10", "0.05". The command line and REST bodies accept it. */
export function plainDollars(nano: bigint): string {
  return trimmed(nano, 9);
}

/** Parses typed text ("1", "0.25", "$3") to nano-dollars; undefined if it is not an amount of at most nine decimals. */
export function parseDollars(text: string): bigint | undefined {
  const match = /^\$?(\d{1,9})(?:\.(\d{1,9}))?$|^\$?\.(\d{1,9})$/.exec(text.trim());
  if (match === null) return undefined;
  const fraction = (match[2] ?? match[3] ?? '').padEnd(9, '0');
  return BigInt((match[1] ?? '0') + fraction);
}

/** Returns a count with thousands separators. */
export function count(value: bigint | number): string {
  return value.toString().replace(/\B(?=(\d{3})+$)/g, ',');
}

function decimals(value: bigint, places: number): { sign: string; whole: string; fraction: string } {
  const size = (value < 0n ? -value : value).toString().padStart(places + 1, '0');
  return { sign: value < 0n ? '−' : '', whole: count(BigInt(size.slice(0, -places))), fraction: size.slice(-places) };
}

function trimmed(value: bigint, places: number): string {
  const size = (value < 0n ? -value : value).toString().padStart(places + 1, '0');
  const fraction = size.slice(-places).replace(/0+$/, '');
  return `${value < 0n ? '-' : ''}${size.slice(0, -places)}${fraction === '' ? '' : `.${fraction}`}`;
}
