import { join, resolve } from 'node:path';
import { defined } from '../lib/defined.ts';
import { parseDollars } from '../lib/dollars.ts';
import { ConfigError, type Problem } from './config-error.ts';
import { readVariableFiles } from './secret-sources.ts';
import { Secret } from './secrets.ts';

/** Variables by name, as `process.env` has them. */
export type Variables = Readonly<Record<string, string | undefined>>;

/** Values that are used at the first start instead of generated ones. */
export interface BootstrapEnvironment {
  /** Absent: a random key. */
  readonly apiKey?: Secret;
  /** Absent: a random key. */
  readonly managementKey?: Secret;
  /** The file to which generated keys are written (mode 0600); absent: they are printed. */
  readonly file?: string;
  /** The balance of account 1 in nano-dollars. */
  readonly balanceNanoUsd: bigint;
}

/** The proxies through which upstreams are reached; absent: none. Their addresses may contain credentials. */
export interface ProxyEnvironment {
  /** For `http:` upstreams. */
  readonly httpProxy?: string;
  /** For `https:` upstreams. */
  readonly httpsProxy?: string;
  /** Hosts that are reached without a proxy. */
  readonly noProxy?: string;
}

/** The settings that environment variables have: the gateway's addresses and folders, and secrets. */
export interface Environment {
  /** Public listener. Port 0: the system picks one. */
  readonly host: string;
  readonly port: number;
  /** Internal listener. */
  readonly rpcHost: string;
  readonly rpcPort: number;
  /** The Unix socket for the operator's commands; absent: none. `isNamed`: a variable names it, so that the start fails if it can't be opened. */
  readonly rpcSocket?: { readonly path: string; readonly isNamed: boolean };
  /** The data directory as given, relative to the working directory. */
  readonly dataDir: string;
  /** The PostgreSQL database of the ledger, which several gateways share; absent: a SQLite file in the data directory. */
  readonly databaseUrl?: string;
  /** The configuration file that `TOLLGATE_CONFIG` names; absent: `./tollgate.yaml` if it exists. */
  readonly configPath?: string;
  /** Threads that serve the public listener; 1: the main thread serves it. */
  readonly workers: number;
  readonly bootstrap: BootstrapEnvironment;
  readonly proxy: ProxyEnvironment;
  /** All variables, for `${NAME}` in the configuration file. */
  readonly variables: Variables;
  /** The variables of OpenTelemetry, with the contents of files that `NAME_FILE` names. */
  readonly telemetry: Variables;
}

const keyLengthMin = 24;

/** The variables that can be secrets and are read once, at the start. For each there is also `NAME_FILE`, the path of a file with the value. */
const secretVariables = [
  'TOLLGATE_BOOTSTRAP_API_KEY',
  'TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY',
  'TOLLGATE_BOOTSTRAP_BALANCE',
  'TOLLGATE_DATABASE_URL',
  'http_proxy',
  'HTTP_PROXY',
  'https_proxy',
  'HTTPS_PROXY',
  'OTEL_EXPORTER_OTLP_HEADERS',
  'OTEL_EXPORTER_OTLP_TRACES_HEADERS',
  'OTEL_EXPORTER_OTLP_METRICS_HEADERS',
];

/** Reads variables and collects all problems, so that one start shows all of them. */
class EnvironmentReader {
  readonly problems: Problem[] = [];
  readonly #variables: Variables;

  /** Returns the variables with a prefix, including secrets that were read from files. */
  list(prefix: string): Variables {
    return Object.fromEntries(Object.entries(this.#variables).filter(([name]) => name.startsWith(prefix)));
  }

  /** Reads secrets from files if `NAME_FILE` is set. */
  constructor(variables: Variables) {
    this.#variables = readVariableFiles(variables, secretVariables).variables;
  }

  /** Returns a variable. An empty one counts as unset, because compose files and CI systems pass unset variables as empty ones. */
  text(name: string): string | undefined {
    const value = this.#variables[name];
    return value === '' ? undefined : value;
  }

  host(name: string): string {
    const value = this.text(name) ?? '127.0.0.1';
    if (!/^[\w.:%-]+$/.test(value)) this.#refuse(name, 'must be a host name or an address without a port');
    return value;
  }

  port(name: string, standard: number): number {
    const value = this.text(name);
    if (value === undefined) return standard;
    if (/^\d{1,5}$/.test(value) && Number(value) <= 65_535) return Number(value);
    this.#refuse(name, `is "${value}", must be a port from 0 (the system picks one) to 65535`);
    return standard;
  }

  /** Reads how many threads serve HTTP. */
  workers(name: string): number {
    const value = this.text(name);
    if (value === undefined) return 1;
    if (/^\d{1,2}$/.test(value) && Number(value) >= 1 && Number(value) <= workersMax) return Number(value);
    this.#refuse(name, `is "${value}", must be a number from 1 to ${workersMax}`);
    return 1;
  }

  key(name: string, prefix: string): Secret | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    if (!value.startsWith(prefix)) {
      this.#refuse(name, `must begin with ${prefix}`);
    } else if (value.length < keyLengthMin) {
      this.#refuse(name, `has ${value.length} characters, must have at least ${keyLengthMin}`);
    } else if (!/^[\x21-\x7e]{1,512}$/.test(value)) {
      this.#refuse(name, 'must have at most 512 characters, all of them printable ASCII and none a space');
    }
    return new Secret(value);
  }

  dollars(name: string, standard: bigint): bigint {
    const value = this.text(name);
    if (value === undefined) return standard;
    const nanoUsd = parseDollars(value);
    if (nanoUsd !== undefined && nanoUsd >= 0n && nanoUsd <= balanceNanoUsdMax) return nanoUsd;
    this.#refuse(name, `is "${value}", must be dollars from 0 to 1000000000, such as 12.50`);
    return standard;
  }

  /** Returns the first of several variables that is set. (The variables for proxies have a lower-case and an upper-case name.) */
  first(...names: readonly [string, ...string[]]): { name: string; value: string } | undefined {
    for (const name of names) {
      const value = this.text(name);
      if (value !== undefined) return { name, value };
    }
    return undefined;
  }

  /** Reads the address of a proxy. Without a scheme it counts as `http://`, as in other programs. The address is never shown, because it may contain a password. */
  proxy(...names: readonly [string, ...string[]]): string | undefined {
    const given = this.first(...names);
    if (given === undefined) return undefined;
    const { name, value } = given;
    const url = URL.parse(/^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? value : `http://${value}`);
    if (url !== null && ['http:', 'https:'].includes(url.protocol) && url.hostname !== '') return url.href;
    this.#refuse(name, 'must be the address of an HTTP proxy, such as http://proxy.example:3128');
    return undefined;
  }

  /** Reads the address of a database. It is never shown, because it may contain a password. With a database, only one worker is allowed: several gateways can share it instead. */
  database(name: string, workers: string): string | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    if (!/^postgres(?:ql)?:\/\/./.test(value))
      this.#refuse(name, 'must be the address of a PostgreSQL database, such as postgres://user@host/name');
    if ((this.text(workers) ?? '1') !== '1')
      this.#refuse(workers, `must be 1 with ${name}: start more gateways instead`);
    return value;
  }

  /** Reads the path of the Unix socket; `off`: there is none. By default it is in the data directory, unless its path is too long for the system. */
  socket(name: string, standard: string): Environment['rpcSocket'] {
    const value = this.text(name);
    if (value === 'off') return undefined;
    const path = resolve(value ?? standard);
    const isTooLong = Buffer.byteLength(path) > socketPathMax;
    if (isTooLong && value !== undefined)
      this.#refuse(name, `must be a path of at most ${socketPathMax} bytes, or off`);
    return isTooLong ? undefined : { path, isNamed: value !== undefined };
  }

  #refuse(path: string, message: string): void {
    this.problems.push({ path, message });
  }
}

/** The most workers. Each has a number that is part of its request ids; the numbers below are for edges in other processes. */
export const workersMax = 32;

/** The longest socket path that every system accepts. */
const socketPathMax = 103;

/** A billion dollars, in nano-dollars: far below the limit of 64 bits. */
const balanceNanoUsdMax = 10n ** 18n;

/**
 * Reads and checks the environment variables; no other code reads them. Throws `ConfigError` with every problem. See docs/configuration.md "Environment variables".
 */
export function readEnvironment(variables: Variables = process.env): Environment {
  const reader = new EnvironmentReader(variables);
  const apiKey = reader.key('TOLLGATE_BOOTSTRAP_API_KEY', 'sk-tg-');
  const managementKey = reader.key('TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY', 'mk-tg-');
  const httpProxy = reader.proxy('http_proxy', 'HTTP_PROXY');
  const httpsProxy = reader.proxy('https_proxy', 'HTTPS_PROXY');
  const noProxy = reader.first('no_proxy', 'NO_PROXY')?.value;
  const dataDir = reader.text('TOLLGATE_DATA_DIR') ?? './data';
  const rpcSocket = reader.socket('TOLLGATE_RPC_SOCKET', join(dataDir, 'operator.sock'));
  const environment: Environment = {
    host: reader.host('TOLLGATE_HOST'),
    port: reader.port('TOLLGATE_PORT', 8080),
    rpcHost: reader.host('TOLLGATE_RPC_HOST'),
    rpcPort: reader.port('TOLLGATE_RPC_PORT', 9090),
    dataDir,
    workers: reader.workers('TOLLGATE_WORKERS'),
    ...defined({ databaseUrl: reader.database('TOLLGATE_DATABASE_URL', 'TOLLGATE_WORKERS') }),
    ...defined({ rpcSocket, configPath: reader.text('TOLLGATE_CONFIG') }),
    bootstrap: Object.freeze({
      ...defined({ apiKey, managementKey, file: reader.text('TOLLGATE_BOOTSTRAP_FILE') }),
      balanceNanoUsd: reader.dollars('TOLLGATE_BOOTSTRAP_BALANCE', 10_000_000_000n),
    }),
    proxy: Object.freeze(defined({ httpProxy, httpsProxy, noProxy })),
    variables,
    telemetry: reader.list('OTEL_'),
  };
  if (reader.problems.length > 0) throw new ConfigError(reader.problems);
  return Object.freeze(environment);
}

/** Returns the URL of a listener, without a slash at its end. */
export function listenerUrl(host: string, port: number, isSecure = false): string {
  return `${isSecure ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
