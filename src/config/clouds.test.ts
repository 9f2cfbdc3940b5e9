import { describe, expect, test } from 'vitest';
import { ConfigError } from './config-error.ts';
import { parseConfig } from './config.ts';
import type { Variables } from './env.ts';
import { toFileSettings } from './file-settings.ts';
import { Secret } from './secrets.ts';

const load = (text: string, variables: Variables = {}) => parseConfig('', text, { variables, builtInIds: [] });
const loadProviders = (text: string, variables: Variables = {}) =>
  load(text, variables).providers.map(({ name, protocol, baseUrl, others = [], cloud }) => ({
    name,
    protocols: [protocol, ...others.map(each => each.protocol)],
    baseUrl,
    cloud,
  }));

describe('variables enable clouds without a file', () => {
  test('Bedrock by its key and a region', () => {
    expect(loadProviders('', { AWS_BEARER_TOKEN_BEDROCK: 'k' })).toEqual([]);
    expect(loadProviders('', { AWS_REGION: 'eu-west-1', AWS_ACCESS_KEY_ID: 'k' })).toEqual([]);
    const [bedrock] = loadProviders('', { AWS_BEARER_TOKEN_BEDROCK: 'k', AWS_DEFAULT_REGION: 'eu-west-1' });
    expect(bedrock).toEqual({
      name: 'bedrock',
      protocols: ['messages', 'responses', 'chat'],
      baseUrl: 'https://bedrock-runtime.eu-west-1.amazonaws.com',
      cloud: { kind: 'bedrock', region: 'eu-west-1', endpoint: 'runtime' },
    });
  });

  test('Vertex by its project, if Google’s own switch is on', () => {
    expect(loadProviders('', { GOOGLE_CLOUD_PROJECT: 'p' })).toEqual([]);
    expect(loadProviders('', { GOOGLE_CLOUD_PROJECT: 'p', GOOGLE_GENAI_USE_VERTEXAI: 'true' })).toEqual([
      {
        name: 'vertex',
        protocols: ['gemini', 'messages'],
        baseUrl: 'https://aiplatform.googleapis.com',
        cloud: { kind: 'vertex', location: 'global', apiVersion: 'v1beta1', project: 'p' },
      },
    ]);
  });

  test('Azure by its address: without a key, by the identity that the variables name', () => {
    const [azure] = load('', {
      AZURE_OPENAI_ENDPOINT: 'https://acme.openai.azure.com/',
      OPENAI_API_VERSION: '2025-04-01-preview',
      AZURE_TENANT_ID: 't',
      AZURE_CLIENT_ID: 'c',
      AZURE_CLIENT_SECRET: 's',
    }).providers;
    expect(azure).toMatchObject({ baseUrl: 'https://acme.openai.azure.com/openai', apiKeys: [], dialect: 'azure' });
    expect(azure?.cloud).toEqual({
      kind: 'azure',
      apiVersion: '2025-04-01-preview',
      credentials: { tenantId: 't', clientId: 'c', clientSecret: new Secret('s') },
    });
  });

  test('Azure with a key and a version has the key in its own header', () => {
    const variables = {
      AZURE_OPENAI_ENDPOINT: 'https://acme.openai.azure.com',
      OPENAI_API_VERSION: 'v',
      AZURE_OPENAI_API_KEY: 'k',
    };
    const [azure] = load('', variables).providers;
    expect(azure?.apiKeys.map(key => key.reveal())).toEqual(['k']);
    expect(azure?.headers).toEqual({});
  });
});

test.each([
  ['us', 'https://aiplatform.us.rep.googleapis.com'],
  ['europe-west1', 'https://europe-west1-aiplatform.googleapis.com'],
])('the address of the location %s is %s', (location, baseUrl) => {
  expect(loadProviders(`providers: { v: { cloud: vertex, location: ${location} } }`)).toMatchObject([{ baseUrl }]);
});

test('the address of Bedrock’s mantle has the region', () => {
  const text = 'providers: { b: { cloud: bedrock, region: us-east-1, endpoint: mantle } }';
  expect(loadProviders(text)).toMatchObject([{ baseUrl: 'https://bedrock-mantle.us-east-1.api.aws' }]);
});

test('`protocol` is then the only one spoken, and `base_url` the only address', () => {
  const text = 'providers: { b: { cloud: bedrock, region: r, protocol: chat, base_url: "http://127.0.0.1:1" } }';
  expect(loadProviders(text)).toMatchObject([{ protocols: ['chat'], baseUrl: 'http://127.0.0.1:1' }]);
});

test('a variable’s key is not sent to an address of the file, nor beside credentials of the file', () => {
  const variables = { AWS_BEARER_TOKEN_BEDROCK: 'k', AWS_REGION: 'r' };
  const countKeys = (text: string) => load(text, variables).providers.map(({ apiKeys }) => apiKeys.length);
  expect(countKeys('providers: { bedrock: {} }')).toEqual([1]);
  expect(countKeys('providers: { bedrock: { base_url: "http://127.0.0.1:1" } }')).toEqual([0]);
  expect(countKeys('providers: { bedrock: { credentials: { profile: p } } }')).toEqual([0]);
});

const problems = (text: string): string[] => {
  try {
    load(text);
    return [];
  } catch (error) {
    return error instanceof ConfigError ? error.problems.map(({ path, message }) => `${path} ${message}`) : [];
  }
};

test.each([
  ['{ cloud: bedrock }', 'providers.a.region is missing; the variable AWS_REGION sets it too'],
  ['{ cloud: azure }', 'providers.a.base_url is missing; the variable AZURE_OPENAI_ENDPOINT sets it too'],
  [
    '{ cloud: vertex, region: r }',
    'providers.a.region is not for vertex; its keys are project, location, api_version, credentials',
  ],
  ['{ cloud: vertex, protocol: chat }', 'providers.a.protocol is "chat", must be gemini or messages for vertex'],
  [
    '{ cloud: vertex, credentials: { profile: p } }',
    'providers.a.credentials has profile, which is not for vertex; allowed here: file',
  ],
  [
    '{ cloud: bedrock, region: r, credentials: { access_key_id: i } }',
    'providers.a.credentials must have access_key_id and secret_access_key together',
  ],
  [
    '{ cloud: bedrock, region: r, credentials: { role_arn: i } }',
    'providers.a.credentials must have role_arn and web_identity_token_file together',
  ],
  [
    '{ cloud: azure, base_url: "https://a.example", credentials: { client_secret: s } }',
    'providers.a.credentials must have tenant_id and client_id',
  ],
  ['{ protocol: chat, base_url: "https://a.example", region: r }', 'providers.a.region is for providers with `cloud`'],
])('%s is refused', (provider, problem) => {
  expect(problems(`providers: { a: ${provider} }`)).toEqual([problem]);
});

test.each([
  '{ cloud: bedrock, region: r, endpoint: mantle, credentials: { role_arn: a, web_identity_token_file: f } }',
  '{ cloud: bedrock, region: r, protocol: chat }',
  '{ cloud: vertex, project: p, location: eu, credentials: { file: f } }',
  '{ cloud: azure, base_url: "https://a.example", api_version: v, credentials: { managed_identity: true } }',
])('%s is the same configuration when it is written and read again', provider => {
  const config = load(`providers: { a: ${provider} }`);
  expect(load(JSON.stringify(toFileSettings(config)))).toEqual(config);
});

test('secrets of credentials are not shown', () => {
  const text =
    'providers: { b: { cloud: bedrock, region: r, credentials: { access_key_id: i, secret_access_key: abc } } }';
  expect(JSON.stringify(toFileSettings(load(text)))).not.toContain('abc');
});
