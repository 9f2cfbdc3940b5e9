import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { GatewayError } from '../../errors/gateway-error.ts';
import { type Extra, type Item, type Opaque, type Part, PartSchema, Role } from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { type SealedReasoning, SealedReasoningSchema } from '../../gen/tollgate/v1/response_pb.ts';
import { envelopeKind, makeEnvelope, summaryKind } from '../../generation/envelope.ts';
import { opaqueAdded } from '../../generation/events.ts';
import { defined } from '../../lib/defined.ts';
import type { SealedBox } from '../../lib/sealed-box.ts';
import { textMessage } from './text-message.ts';

/** The value of `include` with which a client requests the encrypted blobs of reasoning items. */
export const includeEncrypted = 'reasoning.encrypted_content';

/** The reasoning item that blobs belong to. */
interface SealedItem {
  readonly parts: readonly Part[];
  readonly extra?: Extra | undefined;
}

const noItem: SealedItem = { parts: [] };

/**
 * Encrypts ("seals") providers' blobs on their way to a client, and decrypts them on the way back. A client never sees a provider's blob. It gets an envelope that only this gateway can decrypt, and only for the same account. Source:
 * docs/interfaces/README.md "Reasoning and signatures".
 */
export class Sealing {
  readonly #box: SealedBox;
  readonly #accountId: number;

  constructor(box: SealedBox, accountId: number) {
    this.#box = box;
    this.#accountId = accountId;
  }

  /**
   * Returns one envelope with the blobs and the reasoning that they belong to. The reasoning is included because clients get it in another form, but upstreams need it back unchanged.
   */
  seal(kind: 'reasoning' | 'compaction', blobs: readonly Opaque[], item: SealedItem = noItem): Opaque {
    const { parts, extra } = item;
    const reasoning = create(SealedReasoningSchema, { opaque: [...blobs], parts: [...parts], ...defined({ extra }) });
    return makeEnvelope(this.#box.seal(toBinary(SealedReasoningSchema, reasoning), this.#context(kind)));
  }

  /**
   * Returns a step for events on their way to a client. It replaces blobs by envelopes if `include` requests them, and otherwise removes them.
   */
  step(include: readonly string[]): SealStep {
    return new SealStep(this, include.includes(includeEncrypted));
  }

  /** Returns a stored item as a client gets it: with envelopes if `include` requests them, without blobs. */
  sealItem(item: Item, include: readonly string[]): Item {
    const { content } = item;
    if (content.case !== 'reasoning' || content.value.opaque.length === 0) return item;
    const { opaque, parts } = content.value;
    if (opaque.every(({ kind }) => kind === envelopeKind)) return item;
    const shown = include.includes(includeEncrypted)
      ? [this.seal('reasoning', opaque, { parts, extra: item.extra })]
      : [];
    return { ...item, content: { case: 'reasoning', value: { ...content.value, opaque: shown } } };
  }

  /**
   * Returns items as an upstream gets them: with decrypted envelopes, and with the summary in place of a compaction. Throws `invalid_request` for an envelope or compaction that this gateway did not make for this account.
   */
  open(items: readonly Item[]): Item[] {
    return items.map((item, index) => this.#open(item, index));
  }

  #open(item: Item, index: number): Item {
    const { content } = item;
    if (content.case === 'reasoning' && content.value.opaque.some(({ kind }) => kind === envelopeKind)) {
      const sealed = content.value.opaque.map(blob =>
        blob.kind === envelopeKind
          ? this.#readReasoning(blob, 'reasoning', index)
          : create(SealedReasoningSchema, { opaque: [blob] }),
      );
      const extra = sealed.map(each => each.extra).find(each => each !== undefined) ?? item.extra;
      const opaque = sealed.flatMap(reasoning => reasoning.opaque);
      const sealedParts = sealed.flatMap(({ parts }) => parts);
      const parts = sealedParts.length === 0 ? content.value.parts : sealedParts;
      const value = { ...content.value, opaque, parts };
      return { ...item, content: { case: 'reasoning', value }, ...defined({ extra }) };
    }
    return content.case === 'compaction' ? this.#openCompaction(item, content.value.opaque, index) : item;
  }

  #openCompaction(item: Item, blob: Opaque | undefined, index: number): Item {
    if (blob?.kind !== envelopeKind) throw unreadable(index, 'It was not made by this gateway.');
    const [inner] = this.#readReasoning(blob, 'compaction', index).opaque;
    if (inner?.kind !== summaryKind) {
      const value = { $typeName: 'tollgate.v1.Compaction' as const, ...defined({ opaque: inner }) };
      return { ...item, content: { case: 'compaction', value } };
    }
    return textMessage(Role.USER, `Summary of the conversation so far, which it replaces:\n\n${inner.data}`);
  }

  #readReasoning(blob: Opaque, kind: 'reasoning' | 'compaction', index: number): SealedReasoning {
    const content = this.#box.open(blob.data, this.#context(kind));
    if (content === undefined) throw unreadable(index, 'It was changed, or belongs to another account.');
    return fromBinary(SealedReasoningSchema, content);
  }

  #context(kind: string): string {
    return `${kind}:${this.#accountId}`;
  }
}

function unreadable(index: number, why: string): GatewayError {
  const param = `input.${index}.encrypted_content`;
  return new GatewayError('invalid_request', `${param} can’t be read. ${why}`, {
    param,
    tip: 'Send `encrypted_content` exactly as you received it, with a key of the same account, or leave the item out.',
  });
}

/** A reasoning item that has not closed yet. */
interface OpenReasoning {
  readonly blobs: Opaque[];
  readonly parts: Part[];
  readonly extra: Extra | undefined;
}

/** Collects the blobs and the text of a reasoning item, and emits them as one envelope just before the item closes. */
export class SealStep {
  readonly #sealing: Sealing;
  readonly #shows: boolean;
  /** The open reasoning item of each choice; a choice has at most one at a time. */
  readonly #open: (OpenReasoning | undefined)[] = [];

  constructor(sealing: Sealing, shows: boolean) {
    this.#sealing = sealing;
    this.#shows = shows;
  }

  /** Returns those of the events that the client may see, and the envelopes. */
  push(events: readonly GenerationEvent[]): GenerationEvent[] {
    const shown: GenerationEvent[] = [];
    for (const event of events) if (!this.#gathers(event, shown)) shown.push(event);
    return shown;
  }

  /** Returns true if an event must not be sent to the client. Adds events that come before it to `shown`. */
  #gathers({ choice, event }: GenerationEvent, shown: GenerationEvent[]): boolean {
    const open = this.#open[choice];
    switch (event.case) {
      case 'itemOpened':
        if (event.value.content?.content.case === 'reasoning') {
          this.#open[choice] = { blobs: [], parts: [], extra: event.value.content.extra };
        }
        return false;
      case 'partOpened':
        if (open !== undefined && event.value.content !== undefined)
          open.parts.push(emptyReasoning(event.value.content));
        return false;
      case 'delta': {
        const last = open?.parts.at(-1)?.content;
        if (last?.case === 'reasoningText' || last?.case === 'summaryText') last.value.text += event.value.text;
        return false;
      }
      case 'opaqueAdded':
        if (event.value.opaque !== undefined) open?.blobs.push(event.value.opaque);
        return open !== undefined;
      case 'itemClosed': {
        this.#open[choice] = undefined;
        if (open === undefined || open.blobs.length === 0 || !this.#shows) return false;
        const sealed = this.#sealing.seal('reasoning', open.blobs, open);
        shown.push(opaqueAdded(choice, event.value.item, sealed));
        return false;
      }
      default:
        return false;
    }
  }
}

/** Returns a part of reasoning without its text. */
function emptyReasoning({ content }: Part): Part {
  const text = '';
  return content.case === 'summaryText'
    ? create(PartSchema, { content: { case: 'summaryText', value: { text } } })
    : create(PartSchema, { content: { case: 'reasoningText', value: { text } } });
}
