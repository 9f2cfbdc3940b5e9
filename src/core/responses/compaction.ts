import { GatewayError } from '../../errors/gateway-error.ts';
import { type Item, ItemStatus, type Opaque, type Part, Role } from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { Delivery, type GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import type { CompactConversationResponse } from '../../gen/tollgate/v1/response_pb.ts';
import { summaryKind } from '../../generation/envelope.ts';
import { outputItemId, toResponseId } from '../../generation/response-ids.ts';
import type { Generation } from '../generation/generation.ts';
import type { Generations } from '../generation/generations.ts';
import type { AnswerStore } from '../idempotency/replays.ts';
import type { RequestedResponse } from './requested-response.ts';
import { toAnswer } from './stored-response.ts';
import { textMessage } from './text-message.ts';

/**
 * Compacts a conversation: its model summarises it, and the client gets the summary encrypted. Source: docs/interfaces/responses.md
 * "Compaction".
 */

const instructions = `You sum up conversations so that another model can go on from your summary alone. Keep every fact, name, number, path, decision, \
open question and unfinished task that may matter later, what was tried and what came of it, and what the user wants and how. Leave out what does not \
matter any more. Write plain text without an introduction.`;

/** Who requests a compaction, and how its answer is stored. */
export interface CompactHow {
  readonly signal: AbortSignal;
  /** Stores the answer before it is charged; absent: it is not stored. */
  readonly answerStore?: AnswerStore<CompactConversationResponse>;
}

/**
 * Compacts a conversation. It is charged as a generation of the conversation's model. Throws the error of that generation, and `upstream_error` if the model returns no text.
 */
export async function compactConversation(
  generations: Generations,
  requested: RequestedResponse,
  { signal, answerStore }: CompactHow,
): Promise<CompactConversationResponse> {
  const { credential, requestId, telemetry } = requested;
  const request = summaryRequest(requested.request);
  const generation = await generations.begin({ request, credential, requestId, telemetry });
  const said: GenerationEvent[] = [];
  const ended = Promise.withResolvers<void>();
  const leave = (): void => generation.cancel();
  signal.addEventListener('abort', leave, { once: true });
  if (signal.aborted) leave();
  generation.start({
    events: events => void said.push(...events),
    // Set even without `answerStore`, because it throws for an answer without a summary, which then is not charged.
    beforeSettle: async rest => {
      const message = toCompaction(requested, generation, rest);
      await answerStore?.keep(requestId, [message]);
    },
    end: error => (error === undefined ? ended.resolve() : ended.reject(error)),
  });
  try {
    await ended.promise;
  } finally {
    signal.removeEventListener('abort', leave);
  }
  return toCompaction(requested, generation, said);
}

function toCompaction(
  requested: RequestedResponse,
  { createdAtMs, model, limits }: Generation,
  events: readonly GenerationEvent[],
): CompactConversationResponse {
  const id = toResponseId(requested.requestId);
  const { output, completed } = toAnswer(id, events);
  const summary = output.map(readText).join('');
  if (summary.trim() === '' || completed === undefined) {
    throw new GatewayError('upstream_error', 'The model did not summarise the conversation.');
  }
  return {
    $typeName: 'tollgate.v1.CompactConversationResponse',
    id,
    createdAtMs: BigInt(createdAtMs),
    items: toCompacted(id, requested, requested.sealing.seal('compaction', [{ ...summaryBlob, data: summary }])),
    completed,
    model,
    limits,
  };
}

const summaryBlob = { $typeName: 'tollgate.v1.Opaque' as const, provider: 'tollgate', model: '', kind: summaryKind };

/** Returns the compacted conversation: the user's messages unchanged, and a compaction in place of all other items. */
function toCompacted(id: string, { conversation }: RequestedResponse, opaque: Opaque): Item[] {
  const said = [...conversation.before, ...conversation.input].filter(isOfUser);
  const content = { case: 'compaction' as const, value: { $typeName: 'tollgate.v1.Compaction' as const, opaque } };
  const items: Item[] = [...said, { ...emptyItem, content }];
  return items.map((item, index) => ({
    ...item,
    id: outputItemId(id, item, index),
    status: ItemStatus.COMPLETED,
    turn: 0,
  }));
}

const emptyItem = { $typeName: 'tollgate.v1.Item' as const, id: '', status: ItemStatus.UNSPECIFIED, turn: 0 };

function isOfUser({ content }: Item): boolean {
  return content.case === 'message' && content.value.role === Role.USER;
}

/** Builds the request to the conversation's model. Calls of tools and their results become text, because no tool may be called now. */
function summaryRequest(request: GenerateRequest): GenerateRequest {
  const own = request.instructions;
  return {
    $typeName: 'tollgate.v1.GenerateRequest',
    model: request.model,
    endpoint: request.endpoint,
    delivery: Delivery.WHOLE,
    instructions:
      own === undefined ? instructions : `${instructions}\n\nThe conversation’s own instructions were:\n${own}`,
    items: [...request.items.flatMap(asText), textMessage(Role.USER, 'Sum up the conversation above.')],
    tools: [],
    stop: [],
    serviceTier: request.serviceTier,
    ...(request.tierName === undefined ? {} : { tierName: request.tierName }),
    metadata: {},
    include: [],
    truncation: request.truncation,
    strict: false,
    ...(request.promptCacheKey === undefined ? {} : { promptCacheKey: request.promptCacheKey }),
  };
}

function asText(item: Item): Item[] {
  const { content } = item;
  switch (content.case) {
    case 'message':
      return [{ ...item, id: '', turn: 0 }];
    case 'toolCall':
      return [textMessage(Role.ASSISTANT, `[Calls ${content.value.name}: ${content.value.arguments}]`)];
    case 'toolResult':
      return [textMessage(Role.USER, `[Result of the call: ${content.value.parts.map(partText).join('\n')}]`)];
    default:
      return [];
  }
}

function readText({ content }: Item): string {
  return content.case === 'message' ? content.value.parts.map(partText).join('') : '';
}

function partText({ content }: Part): string {
  return content.case === 'text' ? content.value.text : content.case === undefined ? '' : `[${content.case}]`;
}
