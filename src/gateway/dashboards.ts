import type { ClientAddresses } from '../lib/client-address.ts';
import type { DescService } from '@bufbuild/protobuf';
import { SignInLinks } from '../core/dashboard/sign-in-links.ts';
import { type NowOptions, NowStreams } from '../core/dashboard/now.ts';
import { RecentErrors } from '../core/dashboard/recent-errors.ts';
import { findPerson } from '../core/dashboard/people.ts';
import { openSession, sessionMs, type SessionOptions, sessions, signInUrl } from '../core/dashboard/sessions.ts';
import { Dashboard } from '../edge/dashboard/dashboard.ts';
import { type Claims, IdentityProvider } from '../edge/dashboard/identity-provider.ts';
import type { LoginOptions } from '../edge/dashboard/login.ts';
import { PageFiles, pagesFolder } from '../edge/dashboard/files.ts';
import { AccountService } from '../gen/tollgate/v1/account_pb.ts';
import { AdminService } from '../gen/tollgate/v1/admin_pb.ts';
import { CatalogService } from '../gen/tollgate/v1/catalog_pb.ts';
import { ConversationService } from '../gen/tollgate/v1/conversation_pb.ts';
import type { DashboardService } from '../gen/tollgate/v1/dashboard_pb.ts';
import { GenerationService } from '../gen/tollgate/v1/generation_pb.ts';
import { ImageService } from '../gen/tollgate/v1/image_pb.ts';
import { ResponseService } from '../gen/tollgate/v1/response_pb.ts';
import type { Config } from '../config/settings.ts';
import { systemClock } from '../lib/clock.ts';
import { systemRuntime } from '../lib/runtime.ts';
import type { PushedService } from '../lib/pushed-service.ts';
import { directServices } from '../rpc/direct-services.ts';
import type { PushTransport } from '../rpc/push-transport.ts';
import type { Generations } from '../core/generation/generations.ts';
import type { Workers } from './workers/workers.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { RpcCall } from '../rpc/call-boundary.ts';
import { logCall } from './rpc-log.ts';

/** How long the sign-in link of a first start is valid. */
const firstLinkMs = 3_600_000;

/** The services that a key or a signed-in person may call. */
const peoplesServices: readonly DescService[] = [
  AccountService,
  CatalogService,
  GenerationService,
  ResponseService,
  ConversationService,
  ImageService,
  ...directServices,
];

/** The dependencies of `People`. */
interface PeopleOptions extends Pick<NowOptions, 'router'> {
  readonly ledger: Ledger;
  readonly generations: Generations;
  readonly publicUrl: () => string;
  readonly config: Config;
  /** The worker threads in which requests also run; undefined: there are none. */
  readonly workers?: Workers | undefined;
}

/** The dashboard's needs besides the other services: sessions, the live view, and the URLs of the operator's links. */
export class People {
  readonly options: SessionOptions;
  readonly errors = new RecentErrors(() => systemClock.now());
  readonly now: NowStreams;
  #internalUrl = '';

  constructor({ ledger, publicUrl, generations, router, config, workers }: PeopleOptions) {
    this.options = {
      ledger,
      publicUrl,
      clock: systemClock,
      links: new SignInLinks(() => systemClock.now()),
      internalUrl: () => this.#internalUrl,
      hasProvider: () => config.identityProvider !== undefined,
    };
    const listRunning: NowOptions['listRunning'] = async (...whose) => [
      ...generations.listRunning(...whose),
      ...((await workers?.listRunning(...whose)) ?? []),
    ];
    this.now = new NowStreams({ ledger, router, listRunning, runtime: systemRuntime, errors: this.errors });
  }

  /** Records an error that a client got. */
  readonly noteFailure = (account: bigint, key: bigint, code: string): void => {
    this.errors.add({ accountId: Number(account), keyId: Number(key), code });
  };

  /**
   * Creates a session for a person whom the identity provider has authenticated. Returns undefined if no configured rule matches. Operators can't sign in over the public listener.
   */
  async openSession(
    claims: Claims,
    { identityProvider }: Config,
    listener: 'public' | 'internal',
  ): Promise<{ readonly session: string; readonly lifetimeMs: number } | undefined> {
    const rules = identityProvider?.people ?? [];
    const person = findPerson(
      claims,
      listener === 'internal' ? rules : rules.filter(({ role }) => role !== 'operator'),
    );
    return person && { session: await openSession(this.options, person), lifetimeMs: sessionMs };
  }

  /** Returns the implementation of DashboardService. */
  get service(): PushedService<typeof DashboardService> {
    return { ...sessions(this.options), watchNow: this.now.watchNow };
  }

  /** Called when the internal listener is open. Returns its URL. In links, an address that means all addresses of the machine is replaced by the machine's own. */
  listening(rpcUrl: string): string {
    this.#internalUrl = rpcUrl.replace(/\/\/(?:0\.0\.0\.0|\[::\])(?=:)/, '//localhost');
    return rpcUrl;
  }

  /** Returns the URL at which the operator opens the dashboard. `asLink`: on a first start that may print secrets, the URL is a link that signs in once. */
  entrance(asLink: boolean): { readonly url: string; readonly isLink: boolean } {
    const url = asLink
      ? signInUrl(this.#internalUrl, this.options.links.make(firstLinkMs).token)
      : `${this.#internalUrl}/dashboard/`;
    return { url, isLink: asLink };
  }
}

/** The options of the dashboards of both listeners. */
interface DashboardOptions {
  readonly config: Config;
  readonly addresses: ClientAddresses;
  readonly core: PushTransport;
  readonly logger: Logger;
  readonly people: People;
}

/** Returns the dashboards of the public and of the internal listener. The operator's services are only on the internal listener, and not there either if the configuration restricts them to the socket. */
export function openDashboards({ config, addresses, core, logger, people }: DashboardOptions): {
  readonly publicPages: Dashboard;
  readonly internalPages: Dashboard;
} {
  const { rpc, tls, limits } = config;
  const shared = {
    addresses,
    core,
    files: new PageFiles(pagesFolder()),
    runtime: systemRuntime,
    observe: (call: RpcCall) => logCall(logger, call),
    messageBytesMax: limits.bodyBytes,
    controlBytesMax: rpc.controlBytes,
    elementsMax: rpc.messageElements,
  };
  const provider = openProvider(config);
  const login = (listener: 'public' | 'internal'): LoginOptions | undefined =>
    provider && {
      provider,
      origin: listener === 'public' ? people.options.publicUrl : people.options.internalUrl,
      openSession: claims => people.openSession(claims, config, listener),
      failed: error => logger.warn({ error }, 'a sign-in with the identity provider failed'),
    };
  const operators = rpc.admin === 'socket' ? [] : [AdminService];
  return {
    publicPages: new Dashboard({
      ...shared,
      listener: 'public',
      path: () => new URL(people.options.publicUrl()).pathname.replace(/\/+$/, ''),
      login: login('public'),
      isSecure: tls !== undefined,
      services: peoplesServices,
    }),
    internalPages: new Dashboard({
      ...shared,
      listener: 'internal',
      path: () => '',
      login: login('internal'),
      isSecure: rpc.tls !== undefined,
      services: [...peoplesServices, ...operators],
    }),
  };
}

function openProvider({ identityProvider }: Config): IdentityProvider | undefined {
  if (identityProvider === undefined) return undefined;
  const { issuer, clientId, clientSecret, scopes } = identityProvider;
  return new IdentityProvider({ issuer, clientId, clientSecret: clientSecret.reveal(), scopes });
}
