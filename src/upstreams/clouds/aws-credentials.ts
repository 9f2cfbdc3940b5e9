import { defined } from '../../lib/defined.ts';
import type { RevealableKey } from '../http-target.ts';
import { loadInstalled } from './load-installed.ts';
import type { Fetched } from './renewed-credential.ts';

/** The credentials of AWS that the configuration names. */
export interface AwsCredentialSettings {
  readonly accessKeyId?: string;
  readonly secretAccessKey?: RevealableKey;
  readonly sessionToken?: RevealableKey;
  /** A profile of the shared files. */
  readonly profile?: string;
  readonly roleArn?: string;
  readonly webIdentityTokenFile?: string;
  readonly roleSessionName?: string;
}

/** Credentials with which requests are signed. */
export interface AwsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

type AwsProvider = () => Promise<AwsCredentials & { readonly expiration?: Date }>;

/** The used part of `@aws-sdk/credential-provider-node`. */
interface DefaultChainLibrary {
  readonly defaultProvider: (options: { readonly clientConfig: object }) => AwsProvider;
}

/** The used part of `@aws-sdk/credential-provider-web-identity`. */
interface WebIdentityLibrary {
  readonly fromTokenFile: (options: {
    readonly roleArn: string;
    readonly webIdentityTokenFile: string;
    readonly roleSessionName: string;
    readonly clientConfig: object;
  }) => AwsProvider;
}

/** The used part of `@aws-sdk/credential-provider-ini`. */
interface ProfileLibrary {
  readonly fromIni: (options: { readonly profile: string; readonly clientConfig: object }) => AwsProvider;
}

/** Fetches credentials as AWS's own clients do: those that are named, else the default chain. */
export async function fetchAwsCredentials(
  settings: AwsCredentialSettings | undefined,
  region: string,
): Promise<Fetched<AwsCredentials>> {
  const { accessKeyId, secretAccessKey, sessionToken } = settings ?? {};
  if (accessKeyId !== undefined && secretAccessKey !== undefined) {
    return {
      value: {
        accessKeyId,
        secretAccessKey: secretAccessKey.reveal(),
        ...defined({ sessionToken: sessionToken?.reveal() }),
      },
    };
  }
  const { expiration, ...value } = await openProvider(settings, region)();
  return { value, endsAtMs: expiration?.getTime() };
}

function openProvider(settings: AwsCredentialSettings = {}, region: string): AwsProvider {
  const { profile, roleArn, webIdentityTokenFile, roleSessionName = 'tollgate' } = settings;
  const clientConfig = { region };
  if (roleArn !== undefined && webIdentityTokenFile !== undefined) {
    const { fromTokenFile } = loadInstalled<WebIdentityLibrary>('@aws-sdk/credential-provider-web-identity');
    return fromTokenFile({ roleArn, webIdentityTokenFile, roleSessionName, clientConfig });
  }
  // Not the default chain, which would go on to other credentials if the profile had none.
  if (profile !== undefined) {
    const { fromIni } = loadInstalled<ProfileLibrary>('@aws-sdk/credential-provider-ini');
    return fromIni({ profile, clientConfig });
  }
  const { defaultProvider } = loadInstalled<DefaultChainLibrary>('@aws-sdk/credential-provider-node');
  return defaultProvider({ clientConfig });
}
