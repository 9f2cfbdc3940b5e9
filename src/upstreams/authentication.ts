/** How each protocol sends a key: always in a header, because addresses end up in logs. */
export const authentications = {
  bearer: (key: string): readonly [name: string, value: string] => ['authorization', `Bearer ${key}`],
  xApiKey: (key: string): readonly [name: string, value: string] => ['x-api-key', key],
  xGoogApiKey: (key: string): readonly [name: string, value: string] => ['x-goog-api-key', key],
} as const;

/** One of the methods. */
export type Authentication = keyof typeof authentications;
