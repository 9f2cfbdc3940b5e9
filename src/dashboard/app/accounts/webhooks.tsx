import { createClient } from '@connectrpc/connect';
import { useQuery } from '@connectrpc/connect-query';
import { Button } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { AdminService } from '../../../gen/tollgate/v1/admin_pb.ts';
import type { Webhook } from '../../../gen/tollgate/v1/webhook_pb.ts';
import { transport } from '../data/rpc.ts';
import { Moment } from '../parts/amount.tsx';
import { Problem, QueryResult } from '../parts/page.tsx';

const admin = createClient(AdminService, transport);
const eventsShown = 10;

/** Shows the webhooks of an account and the deliveries of their latest events. */
export function Webhooks({ accountId }: { readonly accountId: bigint }) {
  const webhooks = useQuery(AdminService.method.listAccountWebhooks, { accountId });
  return (
    <section className="panel" aria-label="Webhooks">
      <h2>Webhooks of account {`${accountId}`}</h2>
      <QueryResult query={webhooks} height={40}>
        {({ webhooks: list }) =>
          list.length === 0 ? (
            <p className="quiet">
              None. Create one with <code>{`tollgate webhooks create --account ${accountId}`}</code>.
            </p>
          ) : (
            list.map(webhook => <Deliveries key={`${webhook.webhookId}`} webhook={webhook} />)
          )
        }
      </QueryResult>
    </section>
  );
}

function Deliveries({ webhook: { webhookId, url, events: types, disabled } }: { readonly webhook: Webhook }) {
  const client = useQueryClient();
  const events = useQuery(AdminService.method.listAccountWebhookEvents, { query: { webhookId, limit: eventsShown } });
  const replay = useMutation({
    mutationFn: (eventId: string) => admin.replayAccountWebhookEvent({ webhookId, eventId }),
    onSettled: () => client.invalidateQueries(),
  });
  return (
    <>
      <p>
        <code>{url}</code> {disabled && <span className="pill pill-failed">disabled</span>}{' '}
        <span className="quiet small">{types.join(', ')}</span>
      </p>
      {replay.error !== null && <Problem error={replay.error} />}
      <QueryResult query={events} height={40}>
        {({ events: list }) =>
          list.length === 0 ? (
            <p className="quiet">Nothing has been sent yet.</p>
          ) : (
            <div className="scroll" tabIndex={0} role="region" aria-label={`Deliveries of webhook ${webhookId}`}>
              <table className="plain stacked">
                <thead>
                  <tr>
                    <th scope="col">Event</th>
                    <th scope="col">When</th>
                    <th scope="col">State</th>
                    <th scope="col" className="right">
                      Attempts
                    </th>
                    <th scope="col">Last answer</th>
                    <th scope="col">
                      <span className="visually-hidden">Actions</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {list.map(({ eventId, type, createdAtMs, state, attempts, status, error }) => (
                    <tr key={eventId}>
                      <th scope="row">{type}</th>
                      <td data-name="When">
                        <Moment ms={createdAtMs} />
                      </td>
                      <td
                        data-name="State"
                        className={state === 'delivered' ? 'settled' : state === 'failed' ? 'failed' : undefined}
                      >
                        {state}
                      </td>
                      <td data-name="Attempts" className="right">
                        {attempts}
                      </td>
                      <td data-name="Last answer">{error ?? (status === undefined ? '–' : `HTTP ${status}`)}</td>
                      <td className="right">
                        <Button size="compact-xs" variant="default" onClick={() => replay.mutate(eventId)}>
                          Send again
                        </Button>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </QueryResult>
    </>
  );
}
