import type { ClientAddresses } from '../lib/client-address.ts';
import type { ErrorCode } from '../errors/error-table.ts';
import type { Runtime } from '../lib/runtime.ts';
import type { Dashboard } from './dashboard/dashboard.ts';
import type { FairLimits } from '../lib/fair-queue.ts';
import type { LoadLimits } from './load-watch.ts';
import type { UnsentLimits } from './stalled-writes.ts';
import type { WaitingBudget } from '../lib/waiting-budget.ts';
import type { TlsFiles } from '../lib/tls-files.ts';
import type { PushTransport } from '../rpc/push-transport.ts';
import type { JsonBounds } from './json-bounds.ts';
import type { ParserLimits } from './json-parser.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { RequestTelemetry, RequestTrace } from '../telemetry/request-telemetry.ts';

/** The operator's additions to every error. `{code}` in an address becomes the error's code; null: no such address. */
export interface ErrorTexts {
  readonly docs: string | null;
  readonly support: string | null;
  /** Name to address ("discussions"). */
  readonly community: Readonly<Record<string, string>> | null;
  /** The operator's tips by error code; they replace the gateway's, also for errors with a specific tip. */
  readonly tips: Readonly<Partial<Record<ErrorCode, string>>>;
}

/** The options of the public listener. */
export interface EdgeOptions {
  /** The transport to the core's services: in this process, or in another one. */
  readonly transport: PushTransport;
  /** Makes the public id of a request ("req_…"). */
  readonly nextRequestId: () => string;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** True to serve `GET /metrics` on the public listener too. */
  readonly publicMetrics: boolean;
  /** Returns the metrics for the public listener; absent: those of `metrics`. */
  readonly metricsText?: ((reader: 'anyone') => Promise<string>) | undefined;
  /** Called for each error answer to a known caller; absent: not reported. */
  readonly failed?: ((accountId: bigint, keyId: bigint, code: string) => void) | undefined;
  /** Answers all paths below `/dashboard`; absent: there is no dashboard. */
  readonly dashboard?: Dashboard;
  /** The certificate of the listener; absent: cleartext. */
  readonly tls?: TlsFiles | undefined;
  /** The largest body of a request that generates, draws or counts tokens. */
  readonly bodyBytesMax: number;
  /** The largest body of any other request. */
  readonly otherBodyBytesMax: number;
  /** The largest file that is uploaded. */
  readonly fileBytesMax: number;
  /** The maximums of a JSON body's content. */
  readonly bounds: JsonBounds;
  /** The memory of large request bodies, from reading until the answer has ended, and of large stored contents; by account. */
  readonly memory: WaitingBudget<bigint>;
  readonly parser: ParserLimits;
  /** The load at which requests are refused. */
  readonly load: LoadLimits;
  /** How many requests are started at a time. */
  readonly fair: FairLimits;
  readonly unsent: UnsentLimits;
  /** The most requests of one address at a time whose key was refused while their bodies are still arriving. */
  readonly unauthenticatedMax: number;
  /** How long a stream may be silent before a keep-alive is sent. */
  readonly keepAliveMs: number;
  /** True to refuse every request that would get a translation warning, whatever the request sets. */
  readonly strict: boolean;
  readonly texts: ErrorTexts;
  /** Origins whose pages may call the gateway ("https://app.example"); "*" allows all, an empty list none. */
  readonly corsOrigins: readonly string[];
  /** Finds the address of a client, also behind a trusted proxy. */
  readonly addresses: ClientAddresses;
  /** Returns the listed id of a model that clients may name so; undefined: there is none. Absent: the edge has no catalogue, and requests that it refuses itself count for no model. */
  readonly findListed?: (name: string) => string | undefined;
  /** Begins the trace of a request; absent: tracing is off. */
  readonly startTrace?: ((telemetry: RequestTelemetry) => RequestTrace) | undefined;
  /** Returns true once the gateway is stopping: new requests are refused, running streams may end. */
  readonly draining: () => boolean;
  /** Returns, in words for people, why the running gateway can't take requests; undefined if it can. Absent: it always can. */
  readonly unready?: () => string | undefined;
}
