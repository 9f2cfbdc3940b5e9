import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { GatewayError } from '../errors/gateway-error.ts';
import type { ApiKey } from '../gen/tollgate/v1/account_pb.ts';
import { jsonDollars } from '../lib/dollars.ts';
import { apiKeyJson } from '../rpc/resources.ts';
import { readKeySettings } from './account-body.ts';
import { analyticsJson, arithmeticJson, recordJson } from './account-json.ts';
import { readActivityQuery, readAnalyticsQuery, readKeyId } from './account-query.ts';
import { answerJson } from './answer.ts';
import type { Call } from './call.ts';
import { ClientGone } from './client-watch.ts';
import { authenticate } from './credentials.ts';
import type { Edge } from './edge.ts';
import { type JsonBody, readJsonBody } from './json-body.ts';
import type { Query } from './query.ts';

const accountPath = '/v1/account';
/** Far more than a thousand model ids take. */
const bodyBytesMax = 1_048_576;

/** Whether the target of a request is an account endpoint; a wrong field or query there has the validation envelope. */
export function isAccountPath(target: string): boolean {
  return target.startsWith(`${accountPath}/`);
}

type AccountRequest = FastifyRequest<{ Querystring: Query; Params: { key_id: string; request_id: string } }>;

/** An account endpoint: what it needs, and what it answers. */
interface AccountRoute {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  /** Of the management key; the core asks for it again. */
  readonly scope: string;
  readonly answer: (edge: Edge, request: AccountRequest, reply: FastifyReply) => Promise<object>;
}

const routes: readonly AccountRoute[] = [
  {
    method: 'GET',
    path: '/keys',
    scope: 'keys:read',
    answer: async ({ accounts }, request) => {
      const { keys } = await accounts.listKeys({}, credentialOf(request));
      return { data: keys.map(apiKeyJson) };
    },
  },
  {
    method: 'POST',
    path: '/keys',
    scope: 'keys:create',
    answer: async (edge, request, reply) => {
      const settings = readKeySettings(await bodyOf(edge, request, reply));
      return keyAnswer(await edge.accounts.createKey({ settings }, credentialOf(request)));
    },
  },
  {
    method: 'GET',
    path: '/keys/:key_id',
    scope: 'keys:read',
    answer: async ({ accounts }, request) => {
      const apiKeyId = readKeyId(request.params.key_id);
      return keyAnswer(await accounts.getKey({ apiKeyId }, credentialOf(request)));
    },
  },
  {
    method: 'PATCH',
    path: '/keys/:key_id',
    scope: 'keys:update',
    answer: async (edge, request, reply) => {
      const apiKeyId = readKeyId(request.params.key_id);
      const settings = readKeySettings(await bodyOf(edge, request, reply));
      return keyAnswer(await edge.accounts.updateKey({ apiKeyId, settings }, credentialOf(request)));
    },
  },
  {
    method: 'DELETE',
    path: '/keys/:key_id',
    scope: 'keys:delete',
    answer: async ({ accounts }, request) => {
      await accounts.deleteKey({ apiKeyId: readKeyId(request.params.key_id) }, credentialOf(request));
      return { message: 'API key successfully deleted.' };
    },
  },
  {
    method: 'GET',
    path: '/balance',
    scope: 'account:balance',
    answer: async ({ accounts }, request) => {
      const { balanceNanoUsd } = await accounts.getBalance({}, credentialOf(request));
      return { balance: jsonDollars(balanceNanoUsd) };
    },
  },
  {
    method: 'GET',
    path: '/activity',
    scope: 'account:activity',
    answer: async ({ accounts }, request) => {
      const page = readActivityQuery(request.query);
      const { records } = await accounts.listActivity(page, credentialOf(request));
      return { data: records.map(recordJson), limit: page.limit, offset: page.offset };
    },
  },
  {
    method: 'GET',
    path: '/activity/:request_id',
    scope: 'account:activity',
    answer: async ({ accounts }, request) => {
      const { record } = await accounts.getActivity({ requestId: request.params.request_id }, credentialOf(request));
      return arithmeticJson(present(record));
    },
  },
  {
    method: 'GET',
    path: '/analytics',
    scope: 'account:read',
    answer: async ({ accounts }, request) =>
      analyticsJson(await accounts.getAnalytics(readAnalyticsQuery(request.query), credentialOf(request))),
  },
];

/** Offers the account endpoints, for management keys. All successes are 200. Source: service.md, "Account endpoints"; decisions §2, §3, §6. */
export function registerAccount(app: FastifyInstance, edge: Edge): void {
  for (const { method, path, scope, answer } of routes) {
    app.route<{ Querystring: Query; Params: { key_id: string; request_id: string } }>({
      method,
      url: accountPath + path,
      onRequest: authenticate(edge, { scope }),
      handler: async (request, reply) => {
        const value = await answer(edge, request, reply);
        if (request.raw.socket.destroyed) throw new ClientGone();
        answerJson(edge, request, reply, value);
      },
    });
  }
}

function credentialOf(request: AccountRequest): { headers: Call } {
  return { headers: request.call };
}

function bodyOf(edge: Edge, request: AccountRequest, reply: FastifyReply): Promise<JsonBody> {
  return readJsonBody(request.raw, reply.raw, Math.min(bodyBytesMax, edge.options.bodyBytesMax));
}

function keyAnswer({ key }: { readonly key?: ApiKey | undefined }): object {
  return { data: apiKeyJson(present(key)) };
}

/** A part that the core always answers. */
function present<T>(part: T | undefined): T {
  if (part === undefined) throw new GatewayError('internal', 'The gateway failed.');
  return part;
}
