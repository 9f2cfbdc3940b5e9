import { expect, test } from 'vitest';
import { ConfigError } from '../config/config-error.ts';
import { parseConfig } from '../config/config.ts';
import { checkProtocols } from './routing.ts';

const config = parseConfig('a.yaml', 'providers: { up: { protocol: chat, base_url: "http://127.0.0.1:1/v1" } }', {
  variables: {},
  builtInIds: [],
});

test('providers that this version can speak to pass', () => {
  expect(() => checkProtocols(config)).not.toThrow();
});

test('a protocol that the file may name and nothing here speaks is refused by its path, for serve and for config check alike', () => {
  const [provider] = config.providers;
  // The file of a newer version, as an older one would read it.
  const foreign = { ...config, providers: [{ ...provider, protocol: 'telepathy' }] } as unknown as typeof config;
  expect(() => checkProtocols(foreign)).toThrow(ConfigError);
  expect(() => checkProtocols(foreign)).toThrow(
    /^a\.yaml: providers\.up\.protocol: is telepathy, this version speaks chat, /,
  );
});
