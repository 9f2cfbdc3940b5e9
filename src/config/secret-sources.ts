import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { ConfigError, type Problem } from './config-error.ts';
import type { Variables } from './env.ts';

/** A file that a secret was read from. `sha256`: the hash of its content, to detect changes. */
export interface SecretSource {
  readonly path: string;
  readonly sha256: string;
}

/** The environment variables, and the files that were read for them: if `NAME_FILE` is set, `NAME` has the content of that file. */
export interface ReadVariables {
  readonly variables: Variables;
  readonly sources: readonly SecretSource[];
}

/** Reads a secret from a file and removes white space around it. Throws the file system's error. */
export function readSecretSource(path: string): { readonly text: string; readonly source: SecretSource } {
  const bytes = readFileSync(path);
  return { text: bytes.toString('utf8').trim(), source: { path, sha256: hashSecret(bytes) } };
}

/** Returns the hash by which two contents of a secret's file are compared. */
export function hashSecret(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Returns in words why a secret's file can't be read. Leaves out the path, because someone may have put the secret itself there by mistake. */
export function describeUnreadable(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
  return code === 'ENOENT' || code === 'ENAMETOOLONG' ? 'does not exist' : `can't be read (${code})`;
}

/**
 * Reads the named variables from their files if `NAME_FILE` is set. Throws `ConfigError` if both are set, or a file
 * can't be read or is empty.
 */
export function readVariableFiles(variables: Variables, names: Iterable<string>): ReadVariables {
  const read: Record<string, string> = {};
  const sources: SecretSource[] = [];
  const problems: Problem[] = [];
  for (const name of new Set(names)) {
    const twin = `${name}_FILE`;
    const path = Object.hasOwn(variables, twin) ? variables[twin] : undefined;
    if (path === undefined || path === '') continue;
    const refuse = (message: string): void => void problems.push({ path: twin, message });
    if (Object.hasOwn(variables, name) && (variables[name] ?? '') !== '') {
      refuse(`is set together with ${name}: unset one of them`);
      continue;
    }
    try {
      const { text, source } = readSecretSource(path);
      if (text === '') refuse('names a file that is empty');
      read[name] = text;
      sources.push(source);
    } catch (error) {
      refuse(`names a file that ${describeUnreadable(error)}`);
    }
  }
  if (problems.length > 0) throw new ConfigError(problems);
  return sources.length === 0 ? { variables, sources } : { variables: { ...variables, ...read }, sources };
}
