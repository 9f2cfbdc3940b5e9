import { resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ConfigError } from './config-error.ts';
import { listenerUrl, readEnvironment, type Variables } from './env.ts';

function listProblems(variables: Variables): readonly string[] {
  try {
    readEnvironment(variables);
  } catch (error) {
    if (error instanceof ConfigError) return error.lines;
    throw error;
  }
  return [];
}

test('an empty environment gives the documented defaults', () => {
  expect(readEnvironment({})).toEqual({
    host: '127.0.0.1',
    port: 8080,
    rpcHost: '127.0.0.1',
    rpcPort: 9090,
    rpcSocket: { path: resolve('data/operator.sock'), isNamed: false },
    dataDir: './data',
    workers: 1,
    bootstrap: { balanceNanoUsd: 10_000_000_000n },
    proxy: {},
    variables: {},
    telemetry: {},
  });
});

test('an empty variable counts as unset', () => {
  const names = [
    'HOST',
    'PORT',
    'RPC_HOST',
    'RPC_PORT',
    'DATA_DIR',
    'CONFIG',
    'BOOTSTRAP_API_KEY',
    'BOOTSTRAP_BALANCE',
  ];
  const variables = Object.fromEntries(names.map(name => [`TOLLGATE_${name}`, '']));
  expect(readEnvironment(variables)).toEqual({ ...readEnvironment({}), variables });
});

test('every variable is read', () => {
  const environment = readEnvironment({
    TOLLGATE_HOST: '0.0.0.0',
    TOLLGATE_PORT: '0',
    TOLLGATE_RPC_HOST: '::1',
    TOLLGATE_RPC_PORT: '65535',
    TOLLGATE_DATA_DIR: '/var/lib/tollgate',
    TOLLGATE_CONFIG: 'gateway.yaml',
    TOLLGATE_BOOTSTRAP_API_KEY: 'sk-tg-abcdefghijklmnopqr',
    TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY: 'mk-tg-abcdefghijklmnopqr',
    TOLLGATE_BOOTSTRAP_BALANCE: '0.000000001',
  });
  expect(environment).toMatchObject({
    host: '0.0.0.0',
    port: 0,
    rpcHost: '::1',
    rpcPort: 65_535,
    dataDir: '/var/lib/tollgate',
    configPath: 'gateway.yaml',
  });
  expect(environment.bootstrap.apiKey?.reveal()).toBe('sk-tg-abcdefghijklmnopqr');
  expect(environment.bootstrap.managementKey?.reveal()).toBe('mk-tg-abcdefghijklmnopqr');
  expect(environment.bootstrap.balanceNanoUsd).toBe(1n);
});

describe('refused variables, and the reasons', () => {
  test.each<[string, string, string]>([
    ['TOLLGATE_PORT', '65536', 'is "65536", must be a port from 0 (the system picks one) to 65535'],
    ['TOLLGATE_PORT', '80a', 'is "80a", must be a port from 0 (the system picks one) to 65535'],
    ['TOLLGATE_RPC_PORT', '-1', 'is "-1", must be a port from 0 (the system picks one) to 65535'],
    ['TOLLGATE_HOST', 'http://x', 'must be a host name or an address without a port'],
    ['TOLLGATE_BOOTSTRAP_API_KEY', 'mk-tg-abcdefghijklmnopqr', 'must begin with sk-tg-'],
    ['TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY', 'sk-tg-abcdefghijklmnopqr', 'must begin with mk-tg-'],
    ['TOLLGATE_BOOTSTRAP_API_KEY', 'sk-tg-abcdefghijklmnopq', 'has 23 characters, must have at least 24'],
    [
      'TOLLGATE_BOOTSTRAP_API_KEY',
      'sk-tg-abcdefghijklm nopqrst',
      'must have at most 512 characters, all of them printable ASCII and none a space',
    ],
    ['TOLLGATE_BOOTSTRAP_BALANCE', '-1', 'is "-1", must be dollars from 0 to 1000000000, such as 12.50'],
  ])('%s=%s', (name, value, message) => {
    expect(listProblems({ [name]: value })).toEqual([`${name}: ${message}`]);
  });

  test('all problems are reported at once', () => {
    expect(listProblems({ TOLLGATE_PORT: 'x', TOLLGATE_RPC_PORT: 'y', TOLLGATE_BOOTSTRAP_BALANCE: 'z' })).toHaveLength(
      3,
    );
  });

  test('a key is never repeated', () => {
    expect(listProblems({ TOLLGATE_BOOTSTRAP_API_KEY: 'canary-key' }).join()).not.toContain('canary');
  });
});

test('an IPv6 address is written in brackets', () => {
  expect(listenerUrl('::1', 8080)).toBe('http://[::1]:8080');
  expect(listenerUrl('127.0.0.1', 80)).toBe('http://127.0.0.1:80');
});

describe('proxies', () => {
  test('are read in lower case or in upper case, the former first; a scheme may be missing', () => {
    const { proxy } = readEnvironment({
      HTTP_PROXY: 'http://upper.example:1',
      http_proxy: 'lower.example:3128',
      HTTPS_PROXY: 'https://user:pass@proxy.example',
      no_proxy: 'a.example,.b.example',
    });
    expect(proxy).toEqual({
      httpProxy: 'http://lower.example:3128/',
      httpsProxy: 'https://user:pass@proxy.example/',
      noProxy: 'a.example,.b.example',
    });
    expect(readEnvironment({ HTTPS_PROXY: '', https_proxy: '' }).proxy).toEqual({});
  });

  test.each(['socks5://proxy.example:1080', 'http://', 'http://user:canary@[x', 'http://a b'])(
    'what is none is refused by its name, not shown: %s',
    value => {
      const [line, ...others] = listProblems({ HTTPS_PROXY: value });
      expect(line).toBe('HTTPS_PROXY: must be the address of an HTTP proxy, such as http://proxy.example:3128');
      expect(others).toEqual([]);
    },
  );
});

test('the socket for commands can be named or switched off; a path that is too long for any system is refused', () => {
  const readSocket = (value: string) => readEnvironment({ TOLLGATE_RPC_SOCKET: value }).rpcSocket;
  expect(readSocket('/run/tollgate.sock')).toEqual({ path: '/run/tollgate.sock', isNamed: true });
  expect(readSocket('off')).toBeUndefined();
  const long = `/${'x'.repeat(110)}`;
  expect(readEnvironment({ TOLLGATE_DATA_DIR: long }).rpcSocket).toBeUndefined();
  expect(() => readSocket(long)).toThrow('TOLLGATE_RPC_SOCKET: must be a path of at most 103 bytes, or off');
});
