import type { Webhook } from '../gen/tollgate/v1/webhook_pb.ts';
import { webhookEventJson, webhookJson } from '../rpc/webhook-json.ts';
import { readDeliveriesQuery, readPathId } from './account-query.ts';
import { type AccountCall, type Offer, present } from './account-call.ts';
import { readWebhookSettings } from './webhook-body.ts';

const webhookId = ({ request }: AccountCall): bigint => readPathId(request.params.webhook_id, 'webhook');

/** Registers the endpoints of the account's webhooks and of their events. */
export function offerWebhooks(offer: Offer): void {
  offer('GET', '/webhooks', 'webhooks:read', async ({ accounts, as }) => {
    const { webhooks } = await accounts.listWebhooks({}, as);
    return { data: webhooks.map(webhookJson) };
  });
  offer('POST', '/webhooks', 'webhooks:write', async ({ accounts, as, readBody }) =>
    answer(await accounts.createWebhook({ settings: readWebhookSettings(await readBody()) }, as)),
  );
  offer('GET', '/webhooks/:webhook_id', 'webhooks:read', async call =>
    answer(await call.accounts.getWebhook({ webhookId: webhookId(call) }, call.as)),
  );
  offer('PATCH', '/webhooks/:webhook_id', 'webhooks:write', async call => {
    const named = { webhookId: webhookId(call) };
    return answer(
      await call.accounts.updateWebhook({ ...named, settings: readWebhookSettings(await call.readBody()) }, call.as),
    );
  });
  offer('DELETE', '/webhooks/:webhook_id', 'webhooks:write', async call => {
    await call.accounts.deleteWebhook({ webhookId: webhookId(call) }, call.as);
    return { message: 'Webhook successfully deleted.' };
  });
  offer('GET', '/webhooks/:webhook_id/events', 'webhooks:read', async call => {
    const page = readDeliveriesQuery(call.request.query);
    const { events } = await call.accounts.listWebhookEvents({ ...page, webhookId: webhookId(call) }, call.as);
    return { data: events.map(webhookEventJson), limit: page.limit, offset: page.offset };
  });
  offer('POST', '/webhooks/:webhook_id/events/:event_id/replay', 'webhooks:write', async call => {
    const { event_id: eventId } = call.request.params;
    const { event } = await call.accounts.replayWebhookEvent({ webhookId: webhookId(call), eventId }, call.as);
    return { data: webhookEventJson(present(event)) };
  });
}

function answer({ webhook }: { readonly webhook?: Webhook | undefined }): object {
  return { data: webhookJson(present(webhook)) };
}
