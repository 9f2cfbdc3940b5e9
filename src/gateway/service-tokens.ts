import type { Config } from '../config/settings.ts';
import { edgeTokens, operatorTokens } from '../core/secret-files.ts';
import type { ServiceToken } from '../core/service-tokens.ts';

/** Returns all service tokens: those of the data directory and those of the configuration. Throws if a file of the data directory can't be read or created. */
export function serviceTokens(dataDir: string, { rpc }: Config): ServiceToken[] {
  const ofFiles = [
    ...operatorTokens(dataDir).map(text => ({ name: 'operator.token', text, scopes: ['operator'] as const })),
    ...edgeTokens(dataDir).map(text => ({ name: 'edge.token', text, scopes: ['edge'] as const })),
  ];
  const configured = rpc.tokens.flatMap(({ name, tokens, scopes }) =>
    tokens.map(token => ({ name, text: token.reveal(), scopes })),
  );
  return [...ofFiles, ...configured];
}
