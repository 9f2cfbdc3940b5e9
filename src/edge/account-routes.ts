import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { GatewayError } from '../errors/gateway-error.ts';
import type { ApiKey, Group, Limit, OwnAccount } from '../gen/tollgate/v1/account_pb.ts';
import { jsonDollars } from '../lib/dollars.ts';
import { auditJson, entryJson } from '../rpc/history-json.ts';
import {
  analyticsJson,
  arithmeticJson,
  nextPaymentJson,
  ownAccountJson,
  ownKeyJson,
  recordJson,
} from '../rpc/account-json.ts';
import { bodiesJson } from '../rpc/bodies-json.ts';
import { apiKeyJson, groupJson, limitJson } from '../rpc/resources.ts';
import { readKeySettings, readRotation } from './account-body.ts';
import {
  readActivityQuery,
  readAnalyticsQuery,
  readKeysQuery,
  readLimitsQuery,
  readListPage,
  readNextQuery,
  readPageQuery,
  readPathId,
} from './account-query.ts';
import {
  type AccountCall,
  type AccountRequest,
  type Answer,
  type Method,
  type Offer,
  type Params,
  present,
} from './account-call.ts';
import { answerJson } from './answer.ts';
import { ClientGone } from './client-watch.ts';
import { authenticate } from './credentials.ts';
import type { Edge } from './edge.ts';
import { readGroupSettings } from './group-body.ts';
import { generationBodyOptions, type JsonBody, readJsonBody } from './json-body.ts';
import { readLimitChange, readNewLimit } from './limit-body.ts';
import type { Query } from './query.ts';
import { offerWebhooks } from './webhook-routes.ts';
import { readAccountChange } from './webhook-body.ts';

const accountPath = '/v1/account';
const ownKeyPath = '/v1/key';

/**
 * Returns whether the target of a request is an account endpoint, whose errors about wrong fields and queries have the validation
 * envelope.
 */
export function isAccountPath(target: string): boolean {
  return target === accountPath || target.startsWith(`${accountPath}/`) || /^\/v1\/key(?=[/?]|$)/.test(target);
}

/** Registers the account endpoints, for management keys, and the endpoints of a key's holder. Every success is status 200. */
export function registerAccount(app: FastifyInstance, edge: Edge): void {
  const route = (
    method: Method,
    url: string,
    allowed: 'api_key' | { readonly scope: string },
    answer: Answer,
  ): void => {
    app.route<{ Querystring: Query; Params: Params }>({
      method,
      url,
      onRequest: authenticate(edge, allowed),
      handler: async (request, reply) => {
        request.call.address = edge.options.addresses.find(request.raw);
        const value = await answer({
          accounts: edge.accounts,
          as: { headers: request.call },
          request,
          readBody: () => readBody(request, reply),
        });
        if (request.raw.socket.destroyed) throw new ClientGone();
        answerJson(edge, request, reply, value);
      },
    });
  };
  const readBody = (request: FastifyRequest, reply: FastifyReply): Promise<JsonBody> =>
    readJsonBody(edge, {
      ...generationBodyOptions(edge, request, reply),
      bytesMax: Math.min(edge.options.otherBodyBytesMax, edge.options.bodyBytesMax),
    });
  const offer: Offer = (method, path, scope, answer) => route(method, accountPath + path, { scope }, answer);
  offerKeys(offer);
  offerLimits(offer);
  offerGroups(offer);
  offerMoney(offer);
  offerWebhooks(offer);
  offerOwnKey((path, answer) => route('GET', ownKeyPath + path, 'api_key', answer));
}

const keyId = ({ params }: AccountRequest): bigint => readPathId(params.key_id, 'key');
const limitId = ({ params }: AccountRequest): bigint => readPathId(params.limit_id, 'limit');
const groupId = ({ params }: AccountRequest): bigint => readPathId(params.group_id, 'group');

function offerKeys(offer: Offer): void {
  offer('GET', '/keys', 'keys:read', async ({ accounts, as, request }) => {
    const { keys } = await accounts.listKeys(readKeysQuery(request.query), as);
    return { data: keys.map(apiKeyJson) };
  });
  offer('POST', '/keys', 'keys:create', async ({ accounts, as, readBody }) =>
    keyAnswer(await accounts.createKey({ settings: readKeySettings(await readBody()) }, as)),
  );
  offer('GET', '/keys/:key_id', 'keys:read', async ({ accounts, as, request }) =>
    keyAnswer(await accounts.getKey({ apiKeyId: keyId(request) }, as)),
  );
  offer('GET', '/keys/:key_id/next', 'limits:read', async ({ accounts, as, request }) => {
    const { payment } = await accounts.getNextPayment(
      { apiKeyId: keyId(request), ...readNextQuery(request.query) },
      as,
    );
    return nextPaymentJson(present(payment));
  });
  offer('PATCH', '/keys/:key_id', 'keys:update', async ({ accounts, as, request, readBody }) => {
    const apiKeyId = keyId(request);
    return keyAnswer(await accounts.updateKey({ apiKeyId, settings: readKeySettings(await readBody()) }, as));
  });
  offer('POST', '/keys/:key_id/rotate', 'keys:update', async ({ accounts, as, request, readBody }) => {
    const apiKeyId = keyId(request);
    const rotation = hasBody(request) ? readRotation(await readBody()) : {};
    return keyAnswer(await accounts.rotateKey({ apiKeyId, ...rotation }, as));
  });
  offer('DELETE', '/keys/:key_id', 'keys:delete', async ({ accounts, as, request }) => {
    await accounts.deleteKey({ apiKeyId: keyId(request) }, as);
    return { message: 'API key successfully deleted.' };
  });
}

function hasBody({ raw: { headers } }: AccountRequest): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

function offerLimits(offer: Offer): void {
  offer('GET', '/limits', 'limits:read', async ({ accounts, as, request }) => {
    const page = readListPage(request.query);
    const { limits } = await accounts.listLimits(readLimitsQuery(request.query), as);
    return { data: cutPage(limits, page).map(limitJson) };
  });
  offer('POST', '/limits', 'limits:write', async ({ accounts, as, readBody }) =>
    limitAnswer(await accounts.createLimit({ limit: readNewLimit(await readBody()) }, as)),
  );
  offer('GET', '/limits/:limit_id', 'limits:read', async ({ accounts, as, request }) =>
    limitAnswer(await accounts.getLimit({ limitId: limitId(request) }, as)),
  );
  offer('PATCH', '/limits/:limit_id', 'limits:write', async ({ accounts, as, request, readBody }) => {
    const id = limitId(request);
    return limitAnswer(await accounts.updateLimit({ limitId: id, settings: readLimitChange(await readBody()) }, as));
  });
  offer('DELETE', '/limits/:limit_id', 'limits:write', async ({ accounts, as, request }) => {
    await accounts.deleteLimit({ limitId: limitId(request) }, as);
    return { message: 'Limit successfully deleted.' };
  });
}

function offerGroups(offer: Offer): void {
  offer('GET', '/groups', 'groups:read', async ({ accounts, as, request }) => {
    const page = readListPage(request.query);
    const { groups } = await accounts.listGroups({}, as);
    return { data: cutPage(groups, page).map(groupJson) };
  });
  offer('POST', '/groups', 'groups:write', async ({ accounts, as, readBody }) =>
    groupAnswer(await accounts.createGroup({ settings: readGroupSettings(await readBody()) }, as)),
  );
  offer('GET', '/groups/:group_id', 'groups:read', async ({ accounts, as, request }) =>
    groupAnswer(await accounts.getGroup({ groupId: groupId(request) }, as)),
  );
  offer('PATCH', '/groups/:group_id', 'groups:write', async ({ accounts, as, request, readBody }) => {
    const id = groupId(request);
    return groupAnswer(await accounts.updateGroup({ groupId: id, settings: readGroupSettings(await readBody()) }, as));
  });
  offer('DELETE', '/groups/:group_id', 'groups:write', async ({ accounts, as, request }) => {
    await accounts.deleteGroup({ groupId: groupId(request) }, as);
    return { message: 'Group successfully deleted.' };
  });
}

function offerMoney(offer: Offer): void {
  offer('GET', '/settings', 'account:read', async ({ accounts, as }) =>
    accountAnswer(await accounts.getOwnAccount({}, as)),
  );
  offer('PATCH', '/settings', 'webhooks:write', async ({ accounts, as, readBody }) =>
    accountAnswer(await accounts.updateOwnAccount(readAccountChange(await readBody()), as)),
  );
  offer('GET', '/balance', 'account:balance', async ({ accounts, as }) => {
    const { balanceNanoUsd } = await accounts.getBalance({}, as);
    return { balance: jsonDollars(balanceNanoUsd) };
  });
  offer('GET', '/entries', 'account:read', async ({ accounts, as, request }) => {
    const page = readPageQuery(request.query);
    const { entries } = await accounts.listEntries(page, as);
    return { data: entries.map(entryJson), limit: page.limit, offset: page.offset };
  });
  offer('GET', '/audit', 'audit:read', async ({ accounts, as, request }) => {
    const page = readPageQuery(request.query);
    const { records } = await accounts.listAudit(page, as);
    return { data: records.map(auditJson), limit: page.limit, offset: page.offset };
  });
  offer('GET', '/activity', 'account:activity', call => listActivity(call, false));
  offer('GET', '/activity/:request_id', 'account:activity', call => getActivity(call, false));
  offer('GET', '/activity/:request_id/bodies', 'account:bodies', async ({ accounts, as, request }) => {
    const requestId = request.params.request_id;
    const { bodies } = await accounts.getRequestBodies({ requestId }, as);
    if (bodies === undefined) throw new GatewayError('not_found', `No bodies of request ${requestId} are kept.`);
    return bodiesJson(bodies);
  });
  offer('GET', '/analytics', 'account:read', call => getAnalytics(call, false));
}

/** Registers what the holder of an API key can see with that key. */
function offerOwnKey(offer: (path: string, answer: Answer) => void): void {
  offer('', async ({ accounts, as }) => ({ data: ownKeyJson(await accounts.getOwnKey({}, as)) }));
  offer('/next', async ({ accounts, as, request }) => {
    const { payment } = await accounts.getNextPayment({ own: true, ...readNextQuery(request.query) }, as);
    return nextPaymentJson(present(payment));
  });
  offer('/activity', call => listActivity(call, true));
  offer('/activity/:request_id', call => getActivity(call, true));
  offer('/analytics', call => getAnalytics(call, true));
}

async function listActivity({ accounts, as, request }: AccountCall, own: boolean): Promise<object> {
  const page = readActivityQuery(request.query);
  const { records } = await accounts.listActivity({ ...page, own }, as);
  return { data: records.map(recordJson), limit: page.limit, offset: page.offset };
}

async function getActivity({ accounts, as, request }: AccountCall, own: boolean): Promise<object> {
  const { record } = await accounts.getActivity({ requestId: request.params.request_id, own }, as);
  return arithmeticJson(present(record));
}

async function getAnalytics({ accounts, as, request }: AccountCall, own: boolean): Promise<object> {
  return analyticsJson(await accounts.getAnalytics({ ...readAnalyticsQuery(request.query), own }, as));
}

/** Returns a page of a complete list. */
function cutPage<T>(list: readonly T[], { limit, offset }: ReturnType<typeof readListPage>): readonly T[] {
  return list.slice(offset, offset + limit);
}

function keyAnswer({ key }: { readonly key?: ApiKey | undefined }): object {
  return { data: apiKeyJson(present(key)) };
}

function accountAnswer({ account }: { readonly account?: OwnAccount | undefined }): object {
  return { data: ownAccountJson(present(account)) };
}

function limitAnswer({ limit }: { readonly limit?: Limit | undefined }): object {
  return { data: limitJson(present(limit)) };
}

function groupAnswer({ group }: { readonly group?: Group | undefined }): object {
  return { data: groupJson(present(group)) };
}
