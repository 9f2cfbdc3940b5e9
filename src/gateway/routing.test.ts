import { expect, test } from 'vitest';
import { ConfigError } from '../config/config-error.ts';
import { parseConfig } from '../config/config.ts';
import { checkProtocols } from './routing.ts';

const config = parseConfig('a.yaml', 'providers: { up: { protocol: chat, base_url: "http://127.0.0.1:1/v1" } }', {
  variables: {},
  builtInIds: [],
});

test('providers with a known protocol pass', () => {
  expect(() => checkProtocols(config)).not.toThrow();
});

test('a protocol that the schema allows but that is not implemented is refused with its path, by serve and by config check', () => {
  const [provider] = config.providers;
  // Like the file of a newer version, read by an older one.
  const foreign = { ...config, providers: [{ ...provider, protocol: 'telepathy' }] } as unknown as typeof config;
  expect(() => checkProtocols(foreign)).toThrow(ConfigError);
  expect(() => checkProtocols(foreign)).toThrow(
    /^a\.yaml: providers\.up\.protocol: is telepathy, this version speaks chat, /,
  );
});
