import { create, equals, type MessageInitShape } from '@bufbuild/protobuf';
import { GatewayError, toGatewayError } from '../../errors/gateway-error.ts';
import {
  type DashboardService,
  type FundsSchema,
  type WatchNowResponse,
  WatchNowResponseSchema,
} from '../../gen/tollgate/v1/dashboard_pb.ts';
import type { Credential, Ledger } from '../../ledger/ledger.ts';
import { accountIdHeader } from '../../lib/call-headers.ts';
import type { PushedService } from '../../lib/pushed-service.ts';
import type { Sink, StreamControl } from '../../lib/push.ts';
import type { Runtime, Timer } from '../../lib/runtime.ts';
import { authenticate, type Caller, type CredentialPort } from '../credential.ts';
import type { RunningFacts } from '../generation/running-facts.ts';
import { isWithoutKey } from '../routing/live-routes.ts';
import type { Router } from '../routing/router.ts';
import { stopping } from '../running-requests.ts';
import { roleScopes } from '../session-access.ts';
import type { RecentErrors } from './recent-errors.ts';

/** The sources of the dashboard's live view: running requests, funds, errors and routes. */
export interface NowOptions {
  readonly ledger: CredentialPort & Pick<Ledger, 'findAccount' | 'lastEntry'>;
  readonly runtime: Runtime;
  /** Returns the running requests of an account, of a key, or all. */
  readonly listRunning: (accountId: number | undefined, keyId: number | undefined) => Promise<RunningFacts[]>;
  readonly router: Pick<Router, 'routes'>;
  readonly errors: RecentErrors;
}

/** The time between two reads of the live view. */
const intervalMs = 500;
/** An unchanged live view is sent again after this time, so that the page knows that the connection works. */
const keepAliveMs = 5_000;
/** The most running requests that a message lists. */
const runningMax = 200;

/** The parts that a viewer may see. */
interface View {
  /** Undefined: all accounts. */
  readonly accountId: number | undefined;
  /** Undefined: all keys of the account. */
  readonly keyId: number | undefined;
  readonly seesFunds: boolean;
  readonly seesRoutes: boolean;
}

/** The streams of the live view, one for each open page. */
export class NowStreams {
  readonly #options: NowOptions;
  readonly #open = new Set<NowStream>();
  #isClosed = false;

  constructor(options: NowOptions) {
    this.#options = options;
  }

  /** Implements `WatchNow` of DashboardService. */
  readonly watchNow: PushedService<typeof DashboardService>['watchNow'] = (_request, context, sink) => {
    const stream = new NowStream(this.#options, context, {
      message: message => sink.message(message),
      end: error => {
        this.#open.delete(stream);
        sink.end(error);
      },
    });
    this.#open.add(stream);
    // Ends the stream only after this method has returned it.
    if (this.#isClosed) queueMicrotask(() => stream.stop());
    else stream.start();
    return stream;
  };

  /** Ends all streams, because the gateway stops. */
  close(): void {
    this.#isClosed = true;
    for (const stream of this.#open) stream.stop();
  }
}

/** One stream: reads the live view repeatedly, and sends it when it has changed. */
class NowStream implements StreamControl {
  readonly #options: NowOptions;
  readonly #caller: Caller;
  readonly #sink: Sink<WatchNowResponse>;
  #timer: Timer | undefined;
  #last: WatchNowResponse | undefined;
  #isPaused = false;
  #isOver = false;

  constructor(options: NowOptions, caller: Caller, sink: Sink<WatchNowResponse>) {
    this.#options = options;
    this.#caller = caller;
    this.#sink = sink;
  }

  start(): void {
    this.#timer = this.#options.runtime.after(0, () => void this.#tick());
  }

  stop(): void {
    this.#end(stopping());
  }

  cancel(): void {
    this.#end();
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
  }

  /** Never rejects. */
  async #tick(): Promise<void> {
    try {
      const { ledger } = this.#options;
      // Authenticates before each read, because the session may have ended, and a role or a key may have changed.
      const view = toView(await authenticate(this.#caller, ledger, 'any_key'), this.#caller);
      const now = create(WatchNowResponseSchema, await readNow(this.#options, view));
      if (this.#isOver) return;
      if (!this.#isPaused && this.#isDue(now)) this.#sink.message((this.#last = now));
      this.#timer?.restart(intervalMs);
    } catch (thrown) {
      this.#end(toGatewayError(thrown));
    }
  }

  /** Returns true if the live view has changed, or the last message is `keepAliveMs` old. */
  #isDue(now: WatchNowResponse): boolean {
    const last = this.#last;
    if (last === undefined || now.atMs - last.atMs >= BigInt(keepAliveMs)) return true;
    return !equals(WatchNowResponseSchema, { ...now, atMs: last.atMs }, last);
  }

  #end(error?: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#timer?.cancel();
    this.#sink.end(error);
  }
}

/** Returns what the caller may see. Throws `permission_denied` if its credential lacks the scope `account:activity`. */
function toView({ kind, accountId, keyId, scopes: own, session }: Credential, caller: Caller): View {
  if (kind === 'api_key') return { accountId, keyId, seesFunds: false, seesRoutes: false };
  if (session?.role === 'operator') {
    const selected = caller.requestHeader.get(accountIdHeader);
    const view = { keyId: undefined, seesFunds: selected !== null, seesRoutes: true };
    return { ...view, accountId: selected === null ? undefined : Number(selected) };
  }
  const scopes: readonly string[] = kind === 'session' && session !== undefined ? roleScopes[session.role] : own;
  if (!scopes.includes('account:activity')) {
    throw new GatewayError(
      'permission_denied',
      session === undefined
        ? 'The management key lacks the scope account:activity.'
        : `The role ${session.role} lacks the scope account:activity.`,
    );
  }
  return { accountId, keyId: undefined, seesFunds: scopes.includes('account:balance'), seesRoutes: false };
}

async function readNow(options: NowOptions, view: View): Promise<MessageInitShape<typeof WatchNowResponseSchema>> {
  const { ledger, runtime, listRunning, errors } = options;
  const { accountId, keyId, seesFunds } = view;
  const running = (await listRunning(accountId, keyId)).sort((one, other) => other.createdAtMs - one.createdAtMs);
  const [funds, lastEntry] = await Promise.all([
    seesFunds && accountId !== undefined ? readFunds(ledger, accountId) : undefined,
    accountId === undefined ? undefined : ledger.lastEntry(accountId),
  ]);
  return {
    atMs: BigInt(runtime.now()),
    ...(funds === undefined ? {} : { funds }),
    lastEntry: BigInt(lastEntry ?? 0),
    runningCount: running.length,
    runningHeldNanoUsd: running.reduce((sum, { heldNanoUsd }) => sum + heldNanoUsd, 0n),
    running: running.slice(0, runningMax).map(toRunning),
    errors: errors.count(accountId, keyId).map(each => ({ ...each, lastAtMs: BigInt(each.lastAtMs) })),
    restingRoutes: view.seesRoutes ? listUnavailableRoutes(options) : [],
  };
}

async function readFunds(
  ledger: NowOptions['ledger'],
  accountId: number,
): Promise<MessageInitShape<typeof FundsSchema> | undefined> {
  const account = await ledger.findAccount(accountId);
  return account && { balanceNanoUsd: account.balance, heldNanoUsd: account.held };
}

function toRunning({ accountId, keyId, createdAtMs, outputTokens, ...others }: RunningFacts) {
  return {
    ...others,
    accountId: BigInt(accountId),
    apiKeyId: BigInt(keyId),
    createdAtMs: BigInt(createdAtMs),
    outputTokens: BigInt(outputTokens),
  };
}

/** Returns the routes that take no requests, or only one to test them, because their breaker is not closed or none of their keys is usable. */
function listUnavailableRoutes({ router }: NowOptions) {
  return router.routes().flatMap(route => {
    const { name, breaker } = route;
    const state = isWithoutKey(route) ? 'no_key' : breaker.state;
    return state === 'closed' ? [] : [{ model: name.modelId, provider: name.provider, state }];
  });
}
