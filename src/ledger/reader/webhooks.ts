import type { Connection, Query } from '../../lib/sqlite/database.ts';
import type { DeliveryFilter, DeliveryRow, DueDelivery, EventType, NamedWebhook, WebhookRow } from '../webhooks.ts';
import { type Stored, toRow } from './to-row.ts';

type WebhookRecord = Omit<WebhookRow, 'events' | 'disabled'> & { readonly events: string; readonly disabled: number };
interface DeliveryValues {
  webhook: number;
  state: string;
  event: number;
  limit: number;
  offset: number;
}

const webhookSelect =
  'SELECT id AS webhookId, account_id AS accountId, url, events, disabled, created_at_ms AS createdAtMs FROM webhook WHERE removed = 0';
const deliverySelect = `SELECT d.webhook_id AS webhookId, d.event_id AS eventId, e.type, e.data, e.at_ms AS createdAtMs, d.state, d.attempts,
    iif(d.state = 'pending', d.next_at_ms, NULL) AS nextAtMs, d.status, d.error, d.ended_at_ms AS endedAtMs
  FROM delivery d JOIN event e ON e.id = d.event_id WHERE d.webhook_id = @webhook`;

/** Reads webhooks and their deliveries. */
export class WebhookReads {
  readonly #list: Query<[number], Stored<WebhookRecord>>;
  readonly #one: Query<[number, number | null, number | null], Stored<WebhookRecord>>;
  readonly #any: Query<[], unknown>;
  readonly #deliveries: Query<[DeliveryValues], Stored<DeliveryRow>>;
  readonly #due: Query<[number, string, number], Stored<DueDelivery>>;

  constructor(db: Connection) {
    this.#list = db.prepare(`${webhookSelect} AND account_id = ? ORDER BY id`);
    this.#one = db.prepare(`${webhookSelect} AND id = ? AND (? IS NULL OR account_id = ?)`);
    this.#any = db.prepare('SELECT 1 FROM webhook WHERE removed = 0 LIMIT 1');
    this.#deliveries = db.prepare(
      `${deliverySelect} AND (@state = '' OR d.state = @state) AND (@event = 0 OR d.event_id = @event) ORDER BY d.event_id DESC LIMIT @limit OFFSET @offset`,
    );
    this.#due = db.prepare(
      `SELECT d.webhook_id AS webhookId, d.event_id AS eventId, w.url, w.secret, w.account_id AS accountId, e.type, e.data, e.at_ms AS createdAtMs,
         d.attempts, d.until_ms AS untilMs, row_number() OVER (PARTITION BY w.account_id ORDER BY d.next_at_ms, d.event_id) AS place
       FROM (SELECT webhook_id, scope, min(event_id) AS event_id FROM delivery WHERE state = 'pending' GROUP BY webhook_id, scope) first
         JOIN delivery d ON d.event_id = first.event_id AND d.webhook_id = first.webhook_id
         JOIN event e ON e.id = d.event_id JOIN webhook w ON w.id = d.webhook_id
       WHERE d.next_at_ms <= ? AND w.disabled = 0 AND w.removed = 0 AND instr(?, ',' || w.id || ',') = 0
       ORDER BY iif(w.account_id = 0, 0, 1), place, d.next_at_ms, d.event_id LIMIT ?`,
    );
  }

  list(accountId: number): WebhookRow[] {
    return this.#list.all(accountId).map(webhookRow);
  }

  find({ webhookId, accountId }: NamedWebhook): WebhookRow | undefined {
    const record = this.#one.get(webhookId, accountId ?? null, accountId ?? null);
    return record && webhookRow(record);
  }

  hasAny(): boolean {
    return this.#any.get() !== undefined;
  }

  deliveries({
    webhookId,
    state = '',
    limit,
    offset,
  }: Omit<DeliveryFilter, 'state'> & { state?: string }): DeliveryRow[] {
    const values = { webhook: webhookId, state, event: 0, limit, offset };
    return this.#deliveries.all(values).map(record => toRow<DeliveryRow>(record, []));
  }

  delivery(webhookId: number, eventId: number): DeliveryRow | undefined {
    const values = { webhook: webhookId, state: '', event: eventId, limit: 1, offset: 0 };
    const record = this.#deliveries.get(values);
    return record && toRow<DeliveryRow>(record, []);
  }

  due(nowMs: number, limit: number, resting: readonly number[]): DueDelivery[] {
    return this.#due.all(nowMs, `,${resting.join(',')},`, limit).map(record => toRow<DueDelivery>(record, []));
  }
}

function webhookRow(record: Stored<WebhookRecord>): WebhookRow {
  const { events, disabled, ...row } = toRow<WebhookRecord>(record, []);
  return { ...row, events: JSON.parse(events) as EventType[], disabled: disabled === 1 };
}
