import { dirname, resolve } from 'node:path';
import { secret } from './scalars.ts';
import type { CompleteFile } from './complete-providers.ts';
import { describeUnreadable, readSecretSource, type SecretSource } from './secret-sources.ts';
import type { Secret } from './secrets.ts';
import type { YamlPath } from './yaml-source.ts';

/** Called with each problem. */
type Report = (path: YamlPath, message: string) => void;

/** A parsed file with the keys from its `api_key_file`s, and the files that they were read from. */
export interface WithKeys {
  readonly file: CompleteFile;
  readonly sources: readonly SecretSource[];
}

/**
 * Reads the `api_key_file` of each provider, which has a key per line, to be used in rotation. `path`: the path of the
 * configuration file; relative paths are relative to its folder.
 */
export function readKeyFiles(path: string, file: CompleteFile, report: Report): WithKeys {
  const sources: SecretSource[] = [];
  const providers = Object.entries(file.providers).map(([name, provider]): [string, typeof provider] => {
    const { api_key_file: named } = provider;
    if (named === undefined) return [name, provider];
    const place = ['providers', name, 'api_key_file'];
    if (provider.api_key !== undefined) report(place, 'is set together with api_key; keep one of them');
    try {
      const { text, source } = readSecretSource(resolve(dirname(path), named));
      sources.push(source);
      return [name, { ...provider, api_key: readKeys(text, message => report(place, message)) }];
    } catch (error) {
      report(place, `names a file that ${describeUnreadable(error)}`);
      return [name, provider];
    }
  });
  return sources.length === 0
    ? { file, sources }
    : { file: { ...file, providers: Object.fromEntries(providers) }, sources };
}

function readKeys(text: string, refuse: (message: string) => void): Secret[] {
  const lines = text.split('\n').map(line => line.trim());
  const keys = lines.filter(line => line !== '').map(line => secret.safeParse(line));
  if (keys.length === 0) refuse('names a file that is empty; it needs one key per line');
  if (keys.some(({ success }) => !success)) refuse('names a file with a character that no key can have');
  return keys.flatMap(({ data }) => data ?? []);
}
