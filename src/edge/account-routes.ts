import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { GatewayError } from '../errors/gateway-error.ts';
import type { ApiKey } from '../gen/tollgate/v1/account_pb.ts';
import { jsonDollars } from '../lib/dollars.ts';
import { apiKeyJson } from '../rpc/resources.ts';
import { readKeySettings } from './account-body.ts';
import { analyticsJson, arithmeticJson, recordJson } from '../rpc/account-json.ts';
import { readActivityQuery, readAnalyticsQuery, readKeyId } from './account-query.ts';
import { answerJson } from './answer.ts';
import type { Call } from './call.ts';
import { ClientGone } from './client-watch.ts';
import { authenticate } from './credentials.ts';
import type { Edge } from './edge.ts';
import { generationReading, type JsonBody, readJsonBody } from './json-body.ts';
import type { Query } from './query.ts';

const accountPath = '/v1/account';

/** Whether the target of a request is an account endpoint; a wrong field or query there has the validation envelope. */
export function isAccountPath(target: string): boolean {
  return target.startsWith(`${accountPath}/`);
}

type AccountRequest = FastifyRequest<{ Querystring: Query; Params: { key_id: string; request_id: string } }>;

/** What an account endpoint is answered with. */
interface AccountCall {
  readonly accounts: Edge['accounts'];
  /** The caller's credential. */
  readonly as: { readonly headers: Call };
  readonly request: AccountRequest;
  /** Reads the settings that the body names. */
  readonly readSettings: () => Promise<ReturnType<typeof readKeySettings>>;
}

/** Offers the account endpoints, for management keys. All successes are 200. Source: service.md, "Account endpoints"; decisions §2, §3, §6. */
export function registerAccount(app: FastifyInstance, edge: Edge): void {
  /** `scope`: what the management key must have; the core asks for it again. */
  const offer = (
    method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
    path: string,
    scope: string,
    answer: (call: AccountCall) => Promise<object>,
  ): void => {
    app.route<{ Querystring: Query; Params: { key_id: string; request_id: string } }>({
      method,
      url: accountPath + path,
      onRequest: authenticate(edge, { scope }),
      handler: async (request, reply) => {
        const value = await answer({
          accounts: edge.accounts,
          as: { headers: request.call },
          request,
          readSettings: async () => readKeySettings(await readBody(request, reply)),
        });
        if (request.raw.socket.destroyed) throw new ClientGone();
        answerJson(edge, request, reply, value);
      },
    });
  };
  const readBody = (request: FastifyRequest, reply: FastifyReply): Promise<JsonBody> =>
    readJsonBody(edge, {
      ...generationReading(edge, request, reply),
      bytesMax: Math.min(edge.options.otherBodyBytesMax, edge.options.bodyBytesMax),
    });
  offer('GET', '/keys', 'keys:read', async ({ accounts, as }) => {
    const { keys } = await accounts.listKeys({}, as);
    return { data: keys.map(apiKeyJson) };
  });
  offer('POST', '/keys', 'keys:create', async ({ accounts, as, readSettings }) =>
    keyAnswer(await accounts.createKey({ settings: await readSettings() }, as)),
  );
  offer('GET', '/keys/:key_id', 'keys:read', async ({ accounts, as, request }) =>
    keyAnswer(await accounts.getKey({ apiKeyId: readKeyId(request.params.key_id) }, as)),
  );
  offer('PATCH', '/keys/:key_id', 'keys:update', async ({ accounts, as, request, readSettings }) => {
    const apiKeyId = readKeyId(request.params.key_id);
    return keyAnswer(await accounts.updateKey({ apiKeyId, settings: await readSettings() }, as));
  });
  offer('DELETE', '/keys/:key_id', 'keys:delete', async ({ accounts, as, request }) => {
    await accounts.deleteKey({ apiKeyId: readKeyId(request.params.key_id) }, as);
    return { message: 'API key successfully deleted.' };
  });
  offer('GET', '/balance', 'account:balance', async ({ accounts, as }) => {
    const { balanceNanoUsd } = await accounts.getBalance({}, as);
    return { balance: jsonDollars(balanceNanoUsd) };
  });
  offer('GET', '/activity', 'account:activity', async ({ accounts, as, request }) => {
    const page = readActivityQuery(request.query);
    const { records } = await accounts.listActivity(page, as);
    return { data: records.map(recordJson), limit: page.limit, offset: page.offset };
  });
  offer('GET', '/activity/:request_id', 'account:activity', async ({ accounts, as, request }) => {
    const { record } = await accounts.getActivity({ requestId: request.params.request_id }, as);
    return arithmeticJson(present(record));
  });
  offer('GET', '/analytics', 'account:read', async ({ accounts, as, request }) =>
    analyticsJson(await accounts.getAnalytics(readAnalyticsQuery(request.query), as)),
  );
}

function keyAnswer({ key }: { readonly key?: ApiKey | undefined }): object {
  return { data: apiKeyJson(present(key)) };
}

/** A part that the core always answers. */
function present<T>(part: T | undefined): T {
  if (part === undefined) throw new GatewayError('internal', 'The gateway failed.');
  return part;
}
