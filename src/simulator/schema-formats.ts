import type { PromptValues } from './prompt-values.ts';

/** Returns digits that differ for each variation, so that strings can be unique. */
function digits(variation: number, length: number): string {
  return String(variation % 10 ** length).padStart(length, '0');
}

/** Returns a date in 2026. */
function day(variation: number): string {
  return `2026-${digits((Math.floor(variation / 28) % 12) + 1, 2)}-${digits((variation % 28) + 1, 2)}`;
}

/** Returns a value for each string format of JSON Schema 2020-12. The international formats (`idn-email`, `iri`, …) have the same values as the ASCII ones. */
const formats: Readonly<Record<string, (variation: number) => string>> = {
  date: day,
  time: variation => `${digits(variation % 24, 2)}:30:00Z`,
  'date-time': variation => `${day(variation)}T09:30:00Z`,
  duration: variation => `PT${variation + 1}H`,
  email: variation => `user${variation + 1}@example.com`,
  hostname: variation => `host${variation + 1}.example.com`,
  ipv4: variation => `192.0.2.${(variation % 254) + 1}`,
  ipv6: variation => `2001:db8::${(variation + 1).toString(16)}`,
  uri: variation => `https://example.com/${variation + 1}`,
  'uri-reference': variation => `/items/${variation + 1}`,
  'uri-template': variation => `/items/{id}/${variation + 1}`,
  uuid: variation => `00000000-0000-4000-8000-${digits(variation + 1, 12)}`,
  'json-pointer': variation => `/items/${variation}`,
  'relative-json-pointer': variation => `${variation}/items`,
  regex: variation => `^item${variation + 1}$`,
};

/** Formats whose values may come from the user's text: the name to ask `PromptValues` for, and a pattern that the value must match. */
const recognised: Readonly<Record<string, readonly [name: string, shape: RegExp]>> = {
  date: ['date', /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])$/],
  email: ['email', /^[a-z0-9.]{1,64}@[a-z0-9]+(?:\.[a-z0-9]+)+$/i],
  uri: ['url', /^https?:\/\/[a-z0-9.-]+(?:\/[a-z0-9/._-]*)?$/i],
};

/** Returns a string in a format, from the user's text if there is one; undefined if the format is unknown. */
export function formattedString(format: string, values: PromptValues, variation: number): string | undefined {
  const [name, shape] = recognised[format] ?? [];
  const found = name === undefined || variation > 0 ? undefined : values.string(name);
  if (found !== undefined && shape?.test(found) === true) return found;
  const plain = format.replace(/^idn-/, '').replace(/^(?:iri|url)/, 'uri');
  return Object.hasOwn(formats, plain) ? formats[plain]?.(variation) : undefined;
}
