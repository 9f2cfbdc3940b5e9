import { defined } from '../lib/defined.ts';
import type { Variables } from './env.ts';
import { leaf, mapping, matching, oneOf, secret, text, address } from './scalars.ts';
import type { Secret } from './secrets.ts';

/** The clouds, by their names in the configuration. */
export const cloudNames = ['bedrock', 'vertex', 'azure'] as const;
export type CloudName = (typeof cloudNames)[number];

/** How a provider in a cloud is reached. Absent credentials: those that the cloud's own library finds. */
export type CloudSettings = BedrockSettings | VertexSettings | AzureSettings;

/** Amazon Bedrock. */
export interface BedrockSettings {
  readonly kind: 'bedrock';
  readonly region: string;
  readonly endpoint: 'runtime' | 'mantle';
  readonly credentials?: {
    readonly accessKeyId?: string;
    readonly secretAccessKey?: Secret;
    readonly sessionToken?: Secret;
    readonly profile?: string;
    readonly roleArn?: string;
    readonly webIdentityTokenFile?: string;
    readonly roleSessionName?: string;
  };
}

/** Google Vertex AI. */
export interface VertexSettings {
  readonly kind: 'vertex';
  /** Absent: the project of the credentials. */
  readonly project?: string;
  readonly location: string;
  readonly apiVersion: string;
  readonly credentialsFile?: string;
}

/** Azure OpenAI. */
export interface AzureSettings {
  readonly kind: 'azure';
  /** Absent: the addresses without a version. */
  readonly apiVersion?: string;
  readonly credentials?: {
    readonly tenantId?: string;
    readonly clientId?: string;
    readonly clientSecret?: Secret;
    readonly certificateFile?: string;
    readonly tokenFile?: string;
    readonly authorityHost?: string;
    readonly managedIdentity?: true | string;
  };
}

const azureIdentity = leaf<true | string>('true or the client id of an identity', value =>
  value === true || (typeof value === 'string' && value !== '') ? value : undefined,
);
const word = matching(/^[\w.-]+$/, 'letters, digits and . _ -');

/** The members of `credentials`, by the cloud that has them. */
const credentialShapes = {
  bedrock: {
    access_key_id: text.optional(),
    secret_access_key: secret.optional(),
    session_token: secret.optional(),
    profile: text.optional(),
    role_arn: text.optional(),
    web_identity_token_file: text.optional(),
    role_session_name: text.optional(),
  },
  vertex: { file: text.optional() },
  azure: {
    tenant_id: text.optional(),
    client_id: text.optional(),
    client_secret: secret.optional(),
    certificate_file: text.optional(),
    token_file: text.optional(),
    authority_host: address.optional(),
    managed_identity: azureIdentity.optional(),
  },
} as const;

/** The keys of a provider that concern clouds. */
export const cloudShape = {
  cloud: oneOf(...cloudNames).optional(),
  region: word.optional(),
  endpoint: oneOf('runtime', 'mantle').optional(),
  project: matching(/^[\w.:-]+$/, 'the id of a project').optional(),
  location: word.optional(),
  api_version: word.optional(),
  credentials: mapping({
    ...credentialShapes.bedrock,
    ...credentialShapes.vertex,
    ...credentialShapes.azure,
  }).optional(),
};

type Shaped = ReturnType<ReturnType<typeof mapping<typeof cloudShape>>['parse']>;
/** The keys of a provider that concern clouds, as the file has them. */
export type ParsedCloud = Partial<Shaped>;
type Credentials = NonNullable<ParsedCloud['credentials']>;

/** The keys that each cloud has, besides `cloud`. */
const keysByCloud: Readonly<Record<CloudName, readonly (keyof ParsedCloud)[]>> = {
  bedrock: ['region', 'endpoint', 'credentials'],
  vertex: ['project', 'location', 'api_version', 'credentials'],
  azure: ['api_version', 'credentials'],
};
export const cloudKeys = Object.keys(cloudShape) as (keyof ParsedCloud)[];

/** The protocols that each cloud speaks, the first for clients whose own it does not speak. */
export const cloudProtocolNames = {
  bedrock: ['messages', 'responses', 'chat'],
  vertex: ['gemini', 'messages'],
  azure: ['responses', 'chat'],
} as const;

type Report = (key: string, message: string) => void;

/** Returns a cloud's settings with what the variables say. Reports what is missing, and keys of other clouds. */
export function readCloud(kind: CloudName, given: ParsedCloud, variables: Variables, report: Report): CloudSettings {
  for (const key of cloudKeys) {
    if (key === 'cloud' || given[key] === undefined || keysByCloud[kind].includes(key)) continue;
    report(key, `is not for ${kind}; its keys are ${keysByCloud[kind].join(', ')}`);
  }
  const credentials = given.credentials ?? {};
  for (const name of Object.keys(credentials)) {
    if (!Object.hasOwn(credentialShapes[kind], name)) {
      const allowed = Object.keys(credentialShapes[kind]).join(', ');
      report('credentials', `has ${name}, which is not for ${kind}; allowed here: ${allowed}`);
    }
  }
  if (kind === 'bedrock') return readBedrock(given, credentials, variables, report);
  return kind === 'vertex'
    ? readVertex(given, credentials, variables)
    : readAzure(given, credentials, variables, report);
}

function readBedrock(given: ParsedCloud, named: Credentials, variables: Variables, report: Report): BedrockSettings {
  const region = given.region ?? (variables['AWS_REGION'] || variables['AWS_DEFAULT_REGION']);
  if (!region) report('region', 'is missing; the variable AWS_REGION sets it too');
  const credentials = defined({
    accessKeyId: named.access_key_id,
    secretAccessKey: named.secret_access_key,
    sessionToken: named.session_token,
    profile: named.profile,
    roleArn: named.role_arn,
    webIdentityTokenFile: named.web_identity_token_file,
    roleSessionName: named.role_session_name,
  });
  if ((credentials.accessKeyId === undefined) !== (credentials.secretAccessKey === undefined)) {
    report('credentials', 'must have access_key_id and secret_access_key together');
  }
  if ((credentials.roleArn === undefined) !== (credentials.webIdentityTokenFile === undefined)) {
    report('credentials', 'must have role_arn and web_identity_token_file together');
  }
  return {
    kind: 'bedrock',
    region: region || 'us-east-1',
    endpoint: given.endpoint ?? 'runtime',
    ...ifAny({ credentials }),
  };
}

function readVertex(given: ParsedCloud, { file }: Credentials, variables: Variables): VertexSettings {
  const project = given.project ?? (variables['GOOGLE_CLOUD_PROJECT'] || undefined);
  return {
    kind: 'vertex',
    location: given.location ?? (variables['GOOGLE_CLOUD_LOCATION'] || 'global'),
    // As `@google/genai`.
    apiVersion: given.api_version ?? 'v1beta1',
    ...defined({ project, credentialsFile: file }),
  };
}

function readAzure(given: ParsedCloud, named: Credentials, variables: Variables, report: Report): AzureSettings {
  const own = defined({
    tenantId: named.tenant_id,
    clientId: named.client_id,
    clientSecret: named.client_secret,
    certificateFile: named.certificate_file,
    tokenFile: named.token_file,
    authorityHost: named.authority_host,
    managedIdentity: named.managed_identity,
  });
  const credentials = Object.keys(own).length === 0 ? readEntraVariables(variables) : own;
  const hasSecret = [credentials.clientSecret, credentials.certificateFile, credentials.tokenFile].some(
    each => each !== undefined,
  );
  if (hasSecret && (credentials.tenantId === undefined || credentials.clientId === undefined)) {
    report('credentials', 'must have tenant_id and client_id');
  }
  const apiVersion = given.api_version ?? (variables['OPENAI_API_VERSION'] || undefined);
  return { kind: 'azure', ...defined({ apiVersion }), ...ifAny({ credentials }) };
}

/** Returns the identity that the variables of Azure's own clients name; empty if they name none. */
function readEntraVariables(variables: Variables): NonNullable<AzureSettings['credentials']> {
  const read = (name: string): string | undefined => variables[name] || undefined;
  const clientSecret = secret.safeParse(read('AZURE_CLIENT_SECRET')).data;
  const found = defined({
    clientSecret,
    certificateFile: read('AZURE_CLIENT_CERTIFICATE_PATH'),
    tokenFile: read('AZURE_FEDERATED_TOKEN_FILE'),
  });
  const clientId = read('AZURE_CLIENT_ID');
  // Only a client id: that of a user-assigned managed identity.
  if (Object.keys(found).length === 0) return clientId === undefined ? {} : { managedIdentity: clientId };
  return {
    ...found,
    ...defined({ tenantId: read('AZURE_TENANT_ID'), clientId, authorityHost: read('AZURE_AUTHORITY_HOST') }),
  };
}

function ifAny<Value extends object>({ credentials }: { readonly credentials: Value }): { credentials?: Value } {
  return Object.keys(credentials).length === 0 ? {} : { credentials };
}

/** The paths that an address of Azure may have after the resource’s. */
const azureEnding = /(?:\/openai(?:\/v1)?)?\/*$/;

/**
 * Returns the address of a cloud: the file's, if it has one; undefined: none is known. Sources, 2026-11-28: docs.aws.amazon.com/general/latest/gr/bedrock.html,
 * docs.aws.amazon.com/bedrock/latest/userguide/bedrock-mantle.html, docs.cloud.google.com/vertex-ai/generative-ai/docs/learn/locations.
 */
export function cloudAddress(cloud: CloudSettings, own: string | undefined, variables: Variables): string | undefined {
  if (cloud.kind === 'azure') {
    const resource = (own ?? (variables['AZURE_OPENAI_ENDPOINT'] || undefined))?.replace(azureEnding, '');
    return resource && `${resource}/openai${cloud.apiVersion === undefined ? '/v1' : ''}`;
  }
  if (own !== undefined) return own;
  if (cloud.kind === 'bedrock') {
    const { region, endpoint } = cloud;
    return endpoint === 'mantle'
      ? `https://bedrock-mantle.${region}.api.aws`
      : `https://bedrock-runtime.${region}.amazonaws.com`;
  }
  const { location } = cloud;
  if (location === 'global') return 'https://aiplatform.googleapis.com';
  if (location === 'us' || location === 'eu') return `https://aiplatform.${location}.rep.googleapis.com`;
  return `https://${location}-aiplatform.googleapis.com`;
}
