import type { CloudSettings, ParsedCloud } from './clouds.ts';

/** Returns a cloud's settings in the form of the file. Apart from `clouds.ts`, whose schemas load libraries that commands do without. */
export function toCloudKeys(cloud: CloudSettings | undefined): Readonly<Record<keyof ParsedCloud, unknown>> {
  const none = {
    cloud: cloud?.kind,
    region: undefined,
    endpoint: undefined,
    project: undefined,
    location: undefined,
    api_version: undefined,
    credentials: undefined,
  };
  if (cloud === undefined) return none;
  if (cloud.kind === 'vertex') {
    const { project, location, apiVersion, credentialsFile } = cloud;
    const credentials = credentialsFile === undefined ? undefined : { file: credentialsFile };
    return { ...none, project, location, api_version: apiVersion, credentials };
  }
  const { credentials } = cloud;
  const named =
    credentials &&
    Object.fromEntries(
      Object.entries(credentials).map(([name, value]) => [
        name.replaceAll(/[A-Z]/g, letter => `_${letter.toLowerCase()}`),
        value,
      ]),
    );
  return cloud.kind === 'bedrock'
    ? { ...none, region: cloud.region, endpoint: cloud.endpoint, credentials: named }
    : { ...none, api_version: cloud.apiVersion, credentials: named };
}
