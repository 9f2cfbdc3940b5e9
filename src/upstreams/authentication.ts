/** The ways to send a key. It is always in a header, because URLs are logged in many places. */
export const authentications = {
  bearer: (key: string): readonly [name: string, value: string] => ['authorization', `Bearer ${key}`],
  xApiKey: (key: string): readonly [name: string, value: string] => ['x-api-key', key],
  apiKey: (key: string): readonly [name: string, value: string] => ['api-key', key],
  xGoogApiKey: (key: string): readonly [name: string, value: string] => ['x-goog-api-key', key],
} as const;

/** The name of a way to send a key. */
export type Authentication = keyof typeof authentications;
