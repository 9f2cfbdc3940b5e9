import type { ClientAddresses } from '../../lib/client-address.ts';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { DescService } from '@bufbuild/protobuf';
import type { HandlerContext, ServiceImpl } from '@connectrpc/connect';
import { GatewayError } from '../../errors/gateway-error.ts';
import { CredentialKind, CredentialService } from '../../gen/tollgate/v1/credential_pb.ts';
import { DashboardService } from '../../gen/tollgate/v1/dashboard_pb.ts';
import {
  actsForHeader,
  clientAddressHeader,
  dashboardListenerHeader,
  edgeHeader,
  fingerprintHeader,
} from '../../lib/call-headers.ts';
import { requestIdHeader } from '../../lib/ids.ts';
import { SharedBudget } from '../../lib/shared-budget.ts';
import type { Runtime } from '../../lib/runtime.ts';
import { type BrowserCall, createBrowserCalls } from '../../rpc/browser-calls.ts';
import type { CallObserver } from '../../rpc/call-boundary.ts';
import { defaultMessageBytesMax, messageBounds, type MessageLimits } from '../../rpc/message-bounds.ts';
import { OpenCalls } from '../../rpc/open-calls.ts';
import type { PushTransport } from '../../rpc/push-transport.ts';
import { answerText, pageHeaders, type PageFiles } from './files.ts';
import { Login, type LoginOptions } from './login.ts';
import { isOwnOrigin } from './own-origin.ts';
import { SessionCookie } from './session-cookie.ts';

/** The options of the dashboard's listener. */
export interface DashboardOptions extends MessageLimits {
  readonly listener: 'public' | 'internal';
  /** True if the listener has a certificate. */
  readonly isSecure: boolean;
  readonly files: PageFiles;
  /** Finds the address of a client, also behind a trusted proxy. */
  readonly addresses: ClientAddresses;
  /** Returns the path below which browsers see this listener, without a slash at its end; '': none. A proxy removes it. */
  readonly path: () => string;
  readonly core: PushTransport;
  /** The services that pages may call; `DashboardService` is added to them. */
  readonly services: readonly DescService[];
  /** Signs people in with an identity provider; undefined if there is none. */
  readonly login: LoginOptions | undefined;
  readonly runtime: Runtime;
  readonly observe: CallObserver;
}

/**
 * The limits of concurrent calls, in total and per address. A stream ends after `durationMs`, and its page reconnects.
 */
const callLimits = { bytesMax: 0, callsMax: 2_000, perAddressMax: 200, durationMs: 3_600_000 };

/** Bodies larger than this count towards `largeBodyBytesMax` until their answers end. */
const smallBodyBytes = 1 << 20;
const largeBodyBytesMax = 256 << 20;

const prefix = '/dashboard/';
const rpcPrefix = '/dashboard/rpc';

/**
 * Answers everything below `/dashboard` of one listener: the pages, and the calls that the pages make with the session in their cookie.
 */
export class Dashboard {
  readonly #options: DashboardOptions;
  readonly #cookie: SessionCookie;
  readonly #calls: (call: BrowserCall) => Promise<boolean>;
  readonly #open: OpenCalls;
  readonly #login: Login | undefined;
  /** Large bodies that are being read or answered, by address. */
  readonly #bodies: SharedBudget<string>;

  constructor(options: DashboardOptions) {
    this.#options = options;
    this.#cookie = new SessionCookie(options);
    this.#login = options.login && new Login(options.login, this.#cookie, options);
    const bodyBytesMax = options.messageBytesMax ?? defaultMessageBytesMax;
    this.#bodies = new SharedBudget(() => ({
      max: Math.max(bodyBytesMax, largeBodyBytesMax),
      ownerMax: Math.max(bodyBytesMax, largeBodyBytesMax / 2),
    }));
    this.#open = new OpenCalls(callLimits, options.runtime);
    this.#calls = createBrowserCalls({
      ...options,
      services: [...options.services, DashboardService],
      gate: context => this.#checkCaller(context),
      replaced: { [DashboardService.typeName]: this.#signing() },
      watch: options,
    });
  }

  /** Answers a request. Never throws. */
  answer(request: IncomingMessage, response: ServerResponse, requestId: string): void {
    this.#answer(request, response, requestId).catch(() => {
      if (!response.headersSent) response.writeHead(500);
      response.end();
    });
  }

  async #answer(request: IncomingMessage, response: ServerResponse, requestId: string): Promise<void> {
    response.setHeader('x-request-id', requestId);
    const path = (request.url ?? '').split('?', 1)[0] ?? '';
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    if (path === rpcPrefix || path.startsWith(`${rpcPrefix}/`)) {
      if (request.method === 'POST')
        return this.#answerCall(path.slice(rpcPrefix.length), { request, response, requestId });
      response.setHeader('allow', 'POST');
      return answerText(response, 405, 'Calls are POST requests.');
    }
    if (!isRead) {
      response.setHeader('allow', 'GET, HEAD');
      return answerText(response, 405, 'Pages are read with GET.');
    }
    if (path === '/dashboard') {
      response
        .writeHead(308, { ...pageHeaders, location: `${this.#options.path()}${prefix}`, 'content-length': 0 })
        .end();
      return undefined;
    }
    if (this.#login !== undefined && (await this.#login.answer(path, request, response))) return undefined;
    return this.#options.files.answer(path.slice(prefix.length), {
      request,
      response,
      base: `${this.#options.path()}${prefix}`,
    });
  }

  async #answerCall(path: string, call: Omit<BrowserCall, 'path'>): Promise<void> {
    const { request, response, requestId } = call;
    if (!isOwnOrigin(request.headers))
      return refuse(call, 403, 'permission_denied', 'A page of another origin sent this request.');
    if (!this.#open.admit(request, response)) return refuse(call, 503, 'unavailable', 'There are too many calls.');
    if (!this.#admitsBody(path, request, response))
      return refuse(call, 429, 'resource_exhausted', 'Too many large bodies.');
    this.#setHeaders(request, requestId);
    for (const [name, value] of Object.entries({ ...pageHeaders, 'cache-control': 'no-store' })) {
      response.setHeader(name, value);
    }
    if (!(await this.#calls({ path, ...call }))) refuse(call, 404, 'not_found', 'There is no such call here.');
  }

  /**
   * Counts a large body until its answer has ended. Returns whether it may be read. A body of unknown length counts as the largest that the
   * service accepts.
   */
  #admitsBody(path: string, request: IncomingMessage, response: ServerResponse): boolean {
    const service = this.#options.services.find(({ typeName }) => path.startsWith(`/${typeName}/`));
    const { bytesMax } = messageBounds(this.#options, service ?? DashboardService, false);
    const bytes = Math.min(bytesMax, Number(request.headers['content-length'] ?? bytesMax));
    if (bytes <= smallBodyBytes) return true;
    const owner = this.#options.addresses.find(request);
    if (this.#bodies.take(owner, bytes) !== 'taken') return false;
    response.once('close', () => this.#bodies.give(owner, bytes));
    return true;
  }

  /** Removes headers that only the gateway may set, sets them to what is true, and uses the cookie as the credential if there is no other. */
  #setHeaders(request: IncomingMessage, requestId: string): void {
    const { headers } = request;
    for (const name of [edgeHeader, fingerprintHeader, actsForHeader, dashboardListenerHeader]) delete headers[name];
    headers[requestIdHeader] = requestId;
    headers[clientAddressHeader] = this.#options.addresses.find(request);
    if (this.#options.listener === 'public') headers[dashboardListenerHeader] = 'public';
    const session = this.#cookie.read(headers);
    if (session !== undefined && headers.authorization === undefined && headers['x-api-key'] === undefined) {
      headers.authorization = `Bearer ${session}`;
    }
    delete headers.cookie;
  }

  /** Refuses credentials that are not valid on this listener: the operator's sessions work only on the internal one. */
  async #checkCaller({ method, requestHeader }: HandlerContext): Promise<void> {
    const { signIn, whoAmI } = DashboardService.method;
    if (method === signIn) return;
    // Pages call `whoAmI` before they show the sign-in, when nobody is signed in yet.
    if (method === whoAmI && !requestHeader.has('authorization') && !requestHeader.has('x-api-key')) return;
    const request = { $typeName: 'tollgate.v1.AuthenticateRequest', limits: false, admission: false } as const;
    const { kind } = await this.#options.core.ask(CredentialService.method.authenticate, request, requestHeader);
    const isKey =
      kind === CredentialKind.API_KEY || kind === CredentialKind.MANAGEMENT_KEY || kind === CredentialKind.SESSION;
    const isOperator =
      kind === CredentialKind.OPERATOR && requestHeader.get('authorization')?.includes('ss-tg-') === true;
    if (isKey || (isOperator && this.#options.listener === 'internal')) return;
    throw new GatewayError('permission_denied', 'This credential does not work here.', {
      tip: 'The operator’s pages are on the internal listener: npx tollgate dashboard.',
    });
  }

  /** Returns the methods that sign in and out. The session is only in a cookie, which no script can read. */
  #signing(): Partial<ServiceImpl<typeof DashboardService>> {
    const { core, listener, runtime } = this.#options;
    const { signIn, signOut } = DashboardService.method;
    return {
      signIn: async (request, { requestHeader, responseHeader, signal }) => {
        if (listener === 'public' && request.credential.trim().startsWith('lk-tg-')) {
          throw new GatewayError('permission_denied', 'Sign-in links work only on the internal listener.');
        }
        const reply = await core.ask(signIn, request, requestHeader, signal);
        const endsAtMs = Number(reply.identity?.expiresAtMs ?? 0n);
        responseHeader.append('set-cookie', this.#cookie.set(reply.session, endsAtMs - runtime.now()));
        return { ...reply, session: '' };
      },
      signOut: async (request, { requestHeader, responseHeader, signal }) => {
        responseHeader.append('set-cookie', this.#cookie.clear());
        return core.ask(signOut, request, requestHeader, signal);
      },
    };
  }
}

/** Refuses a call in the Connect protocol. An HTTP/1.1 connection is closed afterwards, because the body was not read. */
function refuse({ request, response }: Omit<BrowserCall, 'path'>, status: number, code: string, message: string): void {
  const last = request.httpVersionMajor === 1 ? { connection: 'close' } : {};
  response.writeHead(status, {
    ...pageHeaders,
    ...last,
    'content-type': 'application/json',
    'cache-control': 'no-store',
  });
  response.end(JSON.stringify({ code, message }));
}
