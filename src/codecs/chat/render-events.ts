import assert from 'node:assert/strict';
import type { GatewayError } from '../../errors/gateway-error.ts';
import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import {
  type Completed,
  type Extension,
  ExtensionScope,
  type GenerationEvent,
  type Started,
} from '../../gen/tollgate/v1/event_pb.ts';
import { exactText } from '../../lib/exact-json.ts';
import { sseComment, sseData } from '../../lib/sse.ts';
import type { DecodedRequest, StreamRenderer } from '../codec.ts';
import { ChoiceRenderer } from './choice-renderer.ts';
import { ChunkFrame } from './chunk-frame.ts';
import { errorFrame } from '../openai-error.ts';
import { extras } from './extras.ts';
import { toIdentity } from './identity.ts';
import { renderServiceTier } from '../service-tier.ts';
import { usage } from './usage.ts';

/**
 * Renders events as chunks. The finish reasons are sent only with `completed`, so that an answer that a client sees finished is in the
 * ledger, and a failure before that ends the stream without one. Source: docs/interfaces/chat-completions.md "Stream"; docs/interfaces/README.md "Streams".
 */
export class ChatStreamRenderer implements StreamRenderer {
  readonly keepAlive: string = sseComment('keepalive');
  readonly #includeUsage: boolean;
  readonly #legacyFunctions: boolean;
  /** By index. An entry is undefined if a choice with a higher index began and this one did not. */
  readonly #choices: (ChoiceRenderer | undefined)[] = [];
  #frame = new ChunkFrame('', false);
  #state: 'new' | 'started' | 'completed' = 'new';

  constructor(decoded: DecodedRequest) {
    this.#includeUsage = decoded.includeUsage;
    this.#legacyFunctions = decoded.legacyFunctions === true;
  }

  push({ choice, event }: GenerationEvent): string {
    switch (event.case) {
      case 'started':
        this.#start(event.value);
        break;
      case 'completed':
        this.#complete(event.value);
        break;
      case 'extension':
        this.#extend(choice, event.value);
        break;
      case 'usageReported':
        break;
      default:
        this.#choice(choice).push(event);
    }
    return this.#frame.take();
  }

  end(): string {
    assert(this.#state === 'completed', 'the generation ended without completed');
    return sseData('[DONE]');
  }

  fail(error: GatewayError, requestId: string): string {
    return errorFrame(error, requestId);
  }

  #start(started: Started): void {
    const { id, created, model, fingerprint } = toIdentity(started);
    const members = { id, object: 'chat.completion.chunk', created, model, system_fingerprint: fingerprint };
    this.#frame = new ChunkFrame(JSON.stringify(members).slice(0, -1), this.#includeUsage);
    this.#state = 'started';
    this.#choice(0).begin();
  }

  #choice(index: number): ChoiceRenderer {
    assert(this.#state === 'started', 'an event outside started and completed');
    let choice = this.#choices[index];
    if (choice === undefined) {
      choice = new ChoiceRenderer(index, this.#frame, this.#legacyFunctions);
      this.#choices[index] = choice;
    }
    return choice;
  }

  /** Keeps unknown members for the next chunk. If others already wait, those are first sent in a separate chunk. */
  #extend(index: number, { scope, extra, item }: Extension): void {
    if (scope === ExtensionScope.ITEM) {
      if (extra !== undefined) this.#choice(index).addImage(extra);
      return;
    }
    if (item !== undefined) return this.#choice(index).extendCall(item, extras.members(extra));
    if (extra === undefined || extra.protocol !== Protocol.CHAT || extra.json.length < 3) return;
    const members = `,${extra.json.slice(1, -1)}`;
    const choice = this.#choice(index);
    if (scope !== ExtensionScope.RESPONSE) return choice.extend(scope, members);
    if (this.#frame.hasMembers) choice.flush();
    this.#frame.add(members);
  }

  #complete(completed: Completed): void {
    const tier = `,"service_tier":"${renderServiceTier(completed)}"`;
    for (const choice of this.#choices) choice?.finish(tier);
    if (this.#includeUsage) this.#frame.writeUsage(exactText(usage.render(completed)), tier);
    this.#state = 'completed';
  }
}
