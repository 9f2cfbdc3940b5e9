import type { DescMessage, MessageShape } from '@bufbuild/protobuf';
import { requestIdHeader } from '../../lib/ids.ts';
import type { CallContext } from '../../lib/pushed-service.ts';
import type { Credential } from '../../ledger/ledger.ts';
import type { Binding } from './kept-answer.ts';
import { idempotencyKey, type Replays } from './replays.ts';

/** A call that stores something and costs nothing. */
export interface CreatingCall<Desc extends DescMessage> {
  readonly context: CallContext;
  readonly credential: Credential;
  /** The request message. */
  readonly request: MessageShape<DescMessage>;
  readonly answer: Desc;
}

/**
 * Stores the answer for repeats; does nothing if the call has no Idempotency-Key. `binding`: what makes the answer valid. If that is a document, call it before the document is stored: then a crash between the two leaves neither.
 */
export type KeepAnswer<Message> = (answer: Message, binding: Binding) => Promise<void>;

/**
 * Makes what a call asks for, once per Idempotency-Key: a repeat within a day gets the first answer. Throws what `make` throws, `idempotency_key_reused` and `idempotency_in_progress`. Source: docs/accounting.md "Idempotency".
 */
export async function createOnce<Desc extends DescMessage>(
  replays: Replays,
  call: CreatingCall<Desc>,
  make: (keep: KeepAnswer<MessageShape<Desc>>, requestId: string) => Promise<MessageShape<Desc>>,
): Promise<MessageShape<Desc>> {
  const key = idempotencyKey(call.context);
  const requestId = call.context.requestHeader.get(requestIdHeader) ?? '';
  if (key === undefined) return make(async () => {}, requestId);
  return replays.answerOne({
    ...call,
    key,
    run: store => make((answer, binding) => store.keep(requestId, [answer], binding), requestId),
    restore: answer => answer,
  });
}
