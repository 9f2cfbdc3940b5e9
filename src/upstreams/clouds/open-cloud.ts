import type { Runtime } from '../../lib/runtime.ts';
import type { UpstreamProtocol } from '../protocols.ts';
import type { RequestSigner } from '../request-signer.ts';
import { AwsSigner } from './aws-signer.ts';
import { azureProtocols, type AzureSettings, EntraSigner } from './azure.ts';
import { bedrockProtocols, type BedrockSettings } from './bedrock.ts';
import { vertexProtocols, type VertexSettings, VertexSigner } from './vertex.ts';

/** How a provider in a cloud is reached. */
export type CloudSettings = BedrockSettings | VertexSettings | AzureSettings;

/** Returns the protocols of a cloud by their names in the configuration. */
export function cloudProtocols(cloud: CloudSettings): Readonly<Partial<Record<string, UpstreamProtocol>>> {
  if (cloud.kind === 'bedrock') return bedrockProtocols(cloud);
  return cloud.kind === 'vertex' ? vertexProtocols(cloud) : azureProtocols(cloud);
}

/** Returns what signs a cloud's requests if it has no key. The cloud's library is loaded with the first request. */
export function cloudSigner(cloud: CloudSettings, runtime: Runtime): RequestSigner {
  if (cloud.kind === 'vertex') return new VertexSigner(cloud, runtime);
  if (cloud.kind === 'azure') return new EntraSigner(cloud, runtime);
  const { region, credentials, endpoint } = cloud;
  const service = endpoint === 'mantle' ? 'bedrock-mantle' : 'bedrock';
  return new AwsSigner({ service, region, credentials, runtime });
}
