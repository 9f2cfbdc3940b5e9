import { defined } from '../lib/defined.ts';
import type { ParsedFile } from './schema.ts';
import type { RpcSettings, TlsSettings } from './settings.ts';

/** Returns the files of a listener's certificate; undefined: cleartext. */
export function tlsSettings(tls: ParsedFile['rpc']['tls']): TlsSettings | undefined {
  return tls === undefined
    ? undefined
    : { certPath: tls.cert, keyPath: tls.key, ...defined({ clientCaPath: tls.client_ca }) };
}

/** Returns the file's settings of the internal listener. */
export function rpcSettings({ rpc }: ParsedFile): RpcSettings {
  return {
    ...defined({ tls: tlsSettings(rpc.tls) }),
    admin: rpc.admin,
    tokens: rpc.tokens.map(({ name, token, scopes }) => ({ name, tokens: token, scopes })),
    controlBytes: rpc.control_bytes,
    messageElements: rpc.message_elements,
    open: {
      bytesMax: rpc.open_bytes,
      callsMax: rpc.open_calls,
      perAddressMax: rpc.open_calls_per_address,
      durationMs: rpc.open_call_time,
    },
  };
}
