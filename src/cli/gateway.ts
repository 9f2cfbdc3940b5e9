import { existsSync } from 'node:fs';
import { connect } from 'node:net';
import { join, resolve } from 'node:path';
import { type Client, Code, ConnectError, createClient, type Interceptor } from '@connectrpc/connect';
import { type Environment, listenerUrl } from '../config/env.ts';
import { AdminService } from '../gen/tollgate/v1/admin_pb.ts';
import { CatalogService } from '../gen/tollgate/v1/catalog_pb.ts';
import { ErrorDetailSchema } from '../gen/tollgate/v1/error_pb.ts';
import { readSecretFile } from '../lib/secret-file.ts';
import { fromConnectError } from '../rpc/errors.ts';
import { CommandFailure } from './failure.ts';

/** The address of the running gateway, as the command line gives it; absent values come from the environment. */
export interface GatewayOptions {
  readonly rpcHost?: string;
  readonly rpcPort?: number;
  readonly dataDir?: string;
}

/** Clients of the running gateway's services, with the operator's credential. */
export interface GatewayClients {
  readonly admin: Client<typeof AdminService>;
  readonly catalog: Client<typeof CatalogService>;
}

/** Thrown for a failed call that may have been executed. `repeat` says how to repeat it without executing it twice. */
export class RepeatableFailure extends Error {
  override readonly name = 'RepeatableFailure';
  readonly repeat: string;
  /** True to say it even if the gateway has refused the call. */
  readonly always: boolean;

  constructor(repeat: string, cause: unknown, always = false) {
    super(repeat, { cause });
    this.repeat = repeat;
    this.always = always;
  }
}

/** How long a call may take. */
const timeoutMs = 30_000;

/**
 * Calls the running gateway. Throws `CommandFailure` if there is no operator token, if nothing answers, or if the gateway refuses the call; a
 * wrong field counts as wrong use.
 */
export async function askGateway<T>(
  options: GatewayOptions,
  environment: Environment,
  ask: (clients: GatewayClients) => Promise<T>,
): Promise<T> {
  const { rpcHost: host = environment.rpcHost, rpcPort: port = environment.rpcPort } = options;
  const socketPath = await findSocket(options, environment);
  const tokenPath = join(options.dataDir ?? environment.dataDir, 'operator.token');
  const tokens = readTokens(tokenPath);
  const { createConnectTransport } = await import('./transport.ts');
  // HTTP/1.1, because it has no session that would have to be closed.
  const transport = createConnectTransport({
    baseUrl: listenerUrl(host, port),
    httpVersion: '1.1',
    ...(socketPath === undefined ? {} : { nodeOptions: { socketPath } }),
    defaultTimeoutMs: timeoutMs,
    interceptors: [withFirstKnown(tokens)],
  });
  try {
    return await ask({
      admin: createClient(AdminService, transport),
      catalog: createClient(CatalogService, transport),
    });
  } catch (thrown) {
    if (thrown instanceof CommandFailure) throw thrown;
    throw toFailure(thrown, { address: socketPath ?? `${host}:${port}`, tokenPath });
  }
}

/** Sends the first token. If the gateway does not know it, because it has not read the file again yet, sends the next one. */
function withFirstKnown(tokens: readonly string[]): Interceptor {
  let place = 0;
  return next => async request => {
    for (;;) {
      request.header.set('authorization', `Bearer ${tokens[place] ?? ''}`);
      try {
        return await next(request);
      } catch (error) {
        if (ConnectError.from(error).code !== Code.Unauthenticated || place + 1 >= tokens.length) throw error;
        place += 1;
      }
    }
  };
}

/** Returns the Unix socket of the running gateway; undefined if the command gives host or port, or if no socket answers. */
async function findSocket(
  { rpcHost, rpcPort, dataDir }: GatewayOptions,
  { rpcSocket }: Environment,
): Promise<string | undefined> {
  if (rpcHost !== undefined || rpcPort !== undefined) return undefined;
  const path = dataDir === undefined ? rpcSocket?.path : resolve(dataDir, 'operator.sock');
  if (path === undefined || !existsSync(path)) return undefined;
  // Tries to connect, because a killed gateway leaves the file of its socket behind.
  return new Promise(done => {
    const probe = connect(path)
      .on('error', () => done(undefined))
      .on('connect', () => {
        probe.destroy();
        done(path);
      });
  });
}

/** Returns the operator's tokens, one for each line of the file; there are several while one token replaces another. */
function readTokens(path: string): readonly string[] {
  const hint =
    'Name the data directory of the running gateway with --data-dir or TOLLGATE_DATA_DIR; the gateway creates the token at its first start.';
  const absent = (why: string, cause?: unknown): CommandFailure =>
    new CommandFailure(1, [`The operator token ${path} ${why}.`, hint], cause);
  let text: string | undefined;
  try {
    text = readSecretFile(path);
  } catch (error) {
    throw absent(`can't be read: ${error instanceof Error ? error.message : String(error)}`, error);
  }
  if (text === undefined) throw absent('does not exist');
  const tokens = text.trim().split(/\s+/);
  if (!tokens.every(token => /^[\x21-\x7e]+$/.test(token))) throw absent('does not contain a token');
  return tokens;
}

function toFailure(thrown: unknown, where: { address: string; tokenPath: string }): CommandFailure {
  if (thrown instanceof RepeatableFailure) {
    const { exitCode, lines } = toFailure(thrown.cause, where);
    const isRefused = ConnectError.from(thrown.cause).findDetails(ErrorDetailSchema).length > 0;
    return new CommandFailure(exitCode, isRefused && !thrown.always ? lines : [...lines, thrown.repeat], thrown);
  }
  const failed = (...lines: string[]): CommandFailure => new CommandFailure(1, lines, thrown);
  const error = ConnectError.from(thrown);
  if (error.findDetails(ErrorDetailSchema).length === 0) {
    if (error.code !== Code.Unavailable && error.code !== Code.DeadlineExceeded)
      return failed(`${where.address} is not a Tollgate gateway, or runs another version: ${error.rawMessage}`);
    return failed(
      `No gateway answers on ${where.address}.`,
      'Start it with tollgate serve (in a checkout: npm start), or name it with --rpc-host and --rpc-port (TOLLGATE_RPC_HOST, TOLLGATE_RPC_PORT).',
    );
  }
  const refusal = fromConnectError(error);
  if (refusal.code === 'invalid_api_key') {
    return failed(
      `The gateway on ${where.address} refuses the operator token ${where.tokenPath}.`,
      'Name the data directory of that gateway with --data-dir or TOLLGATE_DATA_DIR.',
    );
  }
  const isWrongUse = refusal.code === 'validation_error' && (refusal.facts.violations?.length ?? 0) > 0;
  return isWrongUse ? new CommandFailure(2, [refusal.message], thrown) : failed(refusal.message, refusal.tip);
}
