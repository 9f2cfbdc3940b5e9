import type { Annotation, Extra, Item, Opaque, Part, Protocol, TokenLogprob } from '../gen/tollgate/v1/content_pb.ts';
import { ItemStatus, Phase } from '../gen/tollgate/v1/content_pb.ts';
import {
  type Completed,
  type DeltaKind,
  ExtensionScope,
  type Finished,
  type FinishReason,
  type GenerationEvent,
  type Started,
  type Usage,
} from '../gen/tollgate/v1/event_pb.ts';

/**
 * Constructors of events. They use object literals instead of `create`, which takes ten times as long and would be called for every delta of every stream.
 */

const wrap = (choice: number, event: GenerationEvent['event']): GenerationEvent => ({
  $typeName: 'tollgate.v1.GenerationEvent',
  choice,
  event,
});

/** Returns `started` with the given fields; all others are empty. */
export function started(value: Partial<Omit<Started, '$typeName'>>): GenerationEvent {
  return wrap(0, {
    case: 'started',
    value: {
      $typeName: 'tollgate.v1.Started',
      requestId: '',
      model: '',
      createdAtMs: 0n,
      warnings: [],
      limits: [],
      route: '',
      systemFingerprint: '',
      ...value,
    },
  });
}

/** Returns `item_opened`. */
export function itemOpened(choice: number, item: number, content: Item): GenerationEvent {
  return wrap(choice, { case: 'itemOpened', value: { $typeName: 'tollgate.v1.ItemOpened', item, content } });
}

/** Returns `part_opened` at `[item, part]`. */
export function partOpened(choice: number, at: readonly [item: number, part: number], content: Part): GenerationEvent {
  const [item, part] = at;
  return wrap(choice, { case: 'partOpened', value: { $typeName: 'tollgate.v1.PartOpened', item, part, content } });
}

/** The content of a delta. */
export interface DeltaText {
  readonly kind: DeltaKind;
  readonly text: string;
  readonly logprobs?: TokenLogprob[];
}

/** Returns `delta` at `[item, part]`. */
export function delta(choice: number, at: readonly [item: number, part: number], added: DeltaText): GenerationEvent {
  const [item, part] = at;
  const { kind, text, logprobs = [] } = added;
  return wrap(choice, { case: 'delta', value: { $typeName: 'tollgate.v1.Delta', item, part, kind, text, logprobs } });
}

/** Returns `opaque_added` to an item. */
export function opaqueAdded(choice: number, item: number, opaque: Opaque): GenerationEvent {
  return wrap(choice, { case: 'opaqueAdded', value: { $typeName: 'tollgate.v1.OpaqueAdded', item, opaque } });
}

/** Returns `part_closed` at `[item, part]`. */
export function partClosed(choice: number, at: readonly [item: number, part: number]): GenerationEvent {
  const [item, part] = at;
  return wrap(choice, { case: 'partClosed', value: { $typeName: 'tollgate.v1.PartClosed', item, part } });
}

/** Returns `item_closed`. */
export function itemClosed(choice: number, item: number, status: ItemStatus = ItemStatus.COMPLETED): GenerationEvent {
  return wrap(choice, {
    case: 'itemClosed',
    value: { $typeName: 'tollgate.v1.ItemClosed', item, status, phase: Phase.UNSPECIFIED },
  });
}

/** Returns `usage_reported`. */
export function usageReported(usage: Usage): GenerationEvent {
  return wrap(0, { case: 'usageReported', value: { $typeName: 'tollgate.v1.UsageReported', usage } });
}

/** Details about why a choice ended. */
export interface FinishFacts {
  /** The upstream's value of the finish reason; absent: the gateway ended the choice. */
  readonly native?: string;
  /** The stop sequence that ended the choice; absent: none, or it is unknown. */
  readonly matchedStop?: string;
  /** More about the end as JSON (`stop_details` of Messages); absent: nothing. */
  readonly detailsJson?: string;
  /** The protocol of `native`; only for a value that the gateway does not know. */
  readonly protocol?: Protocol;
}

/** Returns `finished`. */
export function finished(choice: number, reason: FinishReason, facts: FinishFacts = {}): GenerationEvent {
  const { native = '', detailsJson = '', matchedStop, protocol } = facts;
  const value: Finished = { $typeName: 'tollgate.v1.Finished', reason, native, detailsJson };
  if (matchedStop !== undefined) value.matchedStop = matchedStop;
  if (protocol !== undefined) value.protocol = protocol;
  return wrap(choice, { case: 'finished', value });
}

/** Returns `completed` with the given fields; all others are empty. */
export function completed(value: Partial<Omit<Completed, '$typeName'>>): GenerationEvent {
  const { usageSource = 0, costNanoUsd = 0n, serviceTier = 0, completedAtMs = 0n, usage, tierName } = value;
  const made: Completed = { $typeName: 'tollgate.v1.Completed', usageSource, costNanoUsd, serviceTier, completedAtMs };
  if (usage !== undefined) made.usage = usage;
  if (tierName !== undefined) made.tierName = tierName;
  return wrap(0, { case: 'completed', value: made });
}

/** Returns `annotation_added` to a text part at `[item, part]`. */
export function annotationAdded(
  choice: number,
  at: readonly [item: number, part: number],
  annotation: Annotation,
): GenerationEvent {
  const [item, part] = at;
  return wrap(choice, {
    case: 'annotationAdded',
    value: { $typeName: 'tollgate.v1.AnnotationAdded', item, part, annotation },
  });
}

/** Returns `extension`: JSON members of a protocol for which the protobuf messages have no field. `scope`: where in the protocol's message (an event of a stream, or a whole response) they were. */
export function extension(choice: number, scope: ExtensionScope, extra: Extra): GenerationEvent {
  return wrap(choice, { case: 'extension', value: { $typeName: 'tollgate.v1.Extension', scope, extra } });
}

/** Returns whether an event has members of a choice as a whole, not of a part of it. */
export function isChoiceExtension({ event }: GenerationEvent): boolean {
  return event.case === 'extension' && event.value.scope === ExtensionScope.CHOICE;
}

/** Returns whether an event is shown with the end of an answer: a finish, and members of a choice that come after one. `hasFinished`: a finish has come. */
export function isAtEnd(event: GenerationEvent, hasFinished: boolean): boolean {
  return event.event.case === 'finished' || (hasFinished && isChoiceExtension(event));
}
