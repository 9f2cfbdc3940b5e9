import { expect, test } from 'vitest';
import { ClientAddresses, readNetwork } from './client-address.ts';

const addresses = new ClientAddresses(() => ['10.0.0.0/8', '192.0.2.7', '2001:db8::/32']);
const find = (remoteAddress: string, forwarded?: string): string =>
  addresses.find({
    socket: { remoteAddress },
    headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
  });

test.each([
  ['nobody is in between', '203.0.113.5', undefined, '203.0.113.5'],
  ['a stranger says who it is', '203.0.113.5', '198.51.100.1', '203.0.113.5'],
  ['a trusted proxy says who it is', '10.1.2.3', '198.51.100.1', '198.51.100.1'],
  ['the client invents hops before itself', '10.1.2.3', '1.2.3.4, 198.51.100.1', '198.51.100.1'],
  ['two trusted proxies', '10.1.2.3', '198.51.100.1, 192.0.2.7', '198.51.100.1'],
  ['only trusted proxies', '10.1.2.3', '10.9.9.9, 192.0.2.7', '10.1.2.3'],
  ['no header', '10.1.2.3', undefined, '10.1.2.3'],
  ['no address', '10.1.2.3', 'unknown', '10.1.2.3'],
  ['a port', '10.1.2.3', '198.51.100.1:4711', '198.51.100.1'],
  ['IPv6 with a port', '2001:db8::1', '[2001:db9::5]:4711', '2001:db9::5'],
  ['IPv4 in IPv6', '::ffff:10.1.2.3', '198.51.100.1', '198.51.100.1'],
])('%s', (_name, peer, forwarded, expected) => expect(find(peer, forwarded)).toBe(expected));

test('nobody is trusted by default', () => {
  const none = new ClientAddresses(() => []);
  expect(none.find({ socket: { remoteAddress: '127.0.0.1' }, headers: { 'x-forwarded-for': '1.2.3.4' } })).toBe(
    '127.0.0.1',
  );
});

test('addresses and networks are read, anything else is not', () => {
  expect(['10.0.0.1', '10.0.0.0/8', '::1', '2001:db8::/32'].map(text => readNetwork(text)?.prefix)).toEqual([
    32, 8, 128, 32,
  ]);
  expect(['10.0.0.0/33', '10.0.0', 'proxy.example', '::/129', '', '10.0.0.0/'].map(readNetwork)).toEqual(
    Array(6).fill(undefined),
  );
});
