import type { DescService } from '@bufbuild/protobuf';
import { SignInLinks } from '../core/dashboard/sign-in-links.ts';
import { type SessionOptions, signInUrl } from '../core/dashboard/sessions.ts';
import { Dashboard } from '../edge/dashboard/dashboard.ts';
import { PageFiles, pagesFolder } from '../edge/dashboard/files.ts';
import { AccountService } from '../gen/tollgate/v1/account_pb.ts';
import { AdminService } from '../gen/tollgate/v1/admin_pb.ts';
import { CatalogService } from '../gen/tollgate/v1/catalog_pb.ts';
import { ConversationService } from '../gen/tollgate/v1/conversation_pb.ts';
import { EmbeddingService } from '../gen/tollgate/v1/embedding_pb.ts';
import { GenerationService } from '../gen/tollgate/v1/generation_pb.ts';
import { ImageService } from '../gen/tollgate/v1/image_pb.ts';
import { RerankService } from '../gen/tollgate/v1/rerank_pb.ts';
import { ResponseService } from '../gen/tollgate/v1/response_pb.ts';
import type { Config } from '../config/settings.ts';
import { systemClock } from '../lib/clock.ts';
import { systemRuntime } from '../lib/runtime.ts';
import type { InProcessTransport } from '../rpc/in-process.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { RpcCall } from '../rpc/call-boundary.ts';
import { logCall } from './rpc-log.ts';

/** How long the link of a first start works. */
const firstLinkMs = 3_600_000;

/** Services that a key or a signed-in person may call. */
const peoplesServices: readonly DescService[] = [
  AccountService,
  CatalogService,
  GenerationService,
  ResponseService,
  ConversationService,
  ImageService,
  EmbeddingService,
  RerankService,
];

/** Who is signed in, and where the links of the operator lead. */
export class People {
  readonly options: SessionOptions;
  #internalUrl = '';

  constructor({ ledger, publicUrl }: { readonly ledger: Ledger; readonly publicUrl: () => string }) {
    this.options = {
      ledger,
      publicUrl,
      clock: systemClock,
      links: new SignInLinks(() => systemClock.now()),
      internalUrl: () => this.#internalUrl,
      hasProvider: () => false,
    };
  }

  /** The internal listener is open at this address, which is returned. In links the machine's own replaces one that means all of its addresses. */
  listening(rpcUrl: string): string {
    this.#internalUrl = rpcUrl.replace(/\/\/(?:0\.0\.0\.0|\[::\])(?=:)/, '//localhost');
    return rpcUrl;
  }

  /** Returns where the operator enters: on the first start a link that signs in once. */
  entrance(isFirstStart: boolean): { readonly url: string; readonly isLink: boolean } {
    const url = isFirstStart
      ? signInUrl(this.#internalUrl, this.options.links.make(firstLinkMs).token)
      : `${this.#internalUrl}/dashboard/`;
    return { url, isLink: isFirstStart };
  }
}

/** What the dashboards of both listeners are made from. */
interface DashboardParts {
  readonly config: Config;
  readonly core: InProcessTransport;
  readonly logger: Logger;
}

/** Returns the dashboards of the public and of the internal listener. The operator's services are on the internal one alone, and not there if the configuration wants them on the socket alone. */
export function openDashboards({ config, core, logger }: DashboardParts): {
  readonly publicPages: Dashboard;
  readonly internalPages: Dashboard;
} {
  const { rpc, tls, limits } = config;
  const shared = {
    core,
    files: new PageFiles(pagesFolder()),
    runtime: systemRuntime,
    observe: (call: RpcCall) => logCall(logger, call),
    messageBytesMax: limits.bodyBytes,
    controlBytesMax: rpc.controlBytes,
    elementsMax: rpc.messageElements,
  };
  const operators = rpc.admin === 'socket' ? [] : [AdminService];
  return {
    publicPages: new Dashboard({
      ...shared,
      listener: 'public',
      isSecure: tls !== undefined,
      services: peoplesServices,
    }),
    internalPages: new Dashboard({
      ...shared,
      listener: 'internal',
      isSecure: rpc.tls !== undefined,
      services: [...peoplesServices, ...operators],
    }),
  };
}
