import { randomBytes } from 'node:crypto';
import type { ItemName, RequestedItem, ResultLine } from '../../generation/batches/batch-codec.ts';

/** Result lines: `{id, custom_id, response, error}` for the OpenAI interfaces, `{custom_id, result}` for Messages. */

/** A placeholder for the cost. It is random, so that no answer contains it by chance or on purpose. */
const costMark = randomBytes(24).toString('base64url');
const quotedMark = JSON.stringify(costMark);

/** Renders the line of an answered item, with a placeholder for the cost in the `usage` of its body. */
export function renderAnswer(item: RequestedItem, body: object, isMessages: boolean): ResultLine {
  const name = 'usageMetadata' in body ? 'usageMetadata' : 'usage';
  const usage = (body as Readonly<Record<string, unknown>>)[name];
  const open = typeof usage === 'object' && usage !== null ? { ...body, [name]: { ...usage, cost: costMark } } : body;
  const text = isMessages
    ? toLine({ custom_id: item.customId, result: { type: 'succeeded', message: open } })
    : toLine(openAiLine(item, { status_code: 200, request_id: item.requestId, body: open }));
  const at = text.indexOf(quotedMark);
  if (at < 0) return { head: Buffer.from(text), tail: undefined };
  return { head: Buffer.from(text.slice(0, at)), tail: Buffer.from(text.slice(at + quotedMark.length)) };
}

/** Renders the line of an item that failed, with the error as the item's interface writes it. */
export function renderError(
  item: RequestedItem,
  { status, envelope }: { readonly status: number; readonly envelope: object },
  isMessages: boolean,
): Uint8Array {
  return Buffer.from(
    isMessages
      ? toLine({ custom_id: item.customId, result: { type: 'errored', error: envelope } })
      : toLine(openAiLine(item, { status_code: status, request_id: item.requestId, body: envelope })),
  );
}

const unrun = {
  expired: { code: 'batch_expired', message: 'The batch expired before this request could run.' },
  cancelled: { code: 'batch_cancelled', message: 'The batch was cancelled before this request could run.' },
} as const;

/** Renders the line of an item that was never run. */
export function renderUnrun(item: ItemName, reason: 'expired' | 'cancelled', isMessages: boolean): Uint8Array {
  const type = reason === 'expired' ? 'expired' : 'canceled';
  return Buffer.from(
    isMessages
      ? toLine({ custom_id: item.customId, result: { type } })
      : toLine({ ...openAiLine(item, null), error: unrun[reason] }),
  );
}

function openAiLine({ itemId, customId }: ItemName, response: object | null) {
  return { id: itemId, custom_id: customId, response, error: null };
}

function toLine(value: object): string {
  return `${JSON.stringify(value)}\n`;
}
