/** Generated answers: valid streams of events that an upstream of the codec's protocol could send. Tests render them and parse them again. */
import fc from 'fast-check';
import {
  type Annotation,
  type Item,
  ItemStatus,
  type Opaque,
  type Part,
  type Protocol,
  Role,
  type TokenLogprob,
  ToolKind,
} from '../../src/gen/tollgate/v1/content_pb.ts';
import {
  DeltaKind,
  ExtensionScope,
  FinishReason,
  type GenerationEvent,
  type Usage,
  UsageSource,
} from '../../src/gen/tollgate/v1/event_pb.ts';
import { ServiceTier } from '../../src/gen/tollgate/v1/request_pb.ts';
import {
  toExtra,
  makeItem,
  messageContent,
  makeOpaque,
  makePart,
  reasoningContent,
  reasoningTextContent,
  refusalContent,
  summaryTextContent,
  textContent,
  toolCallContent,
  urlCitation,
} from '../../src/codecs/content.ts';
import {
  annotationAdded,
  completed,
  delta,
  extension,
  finished,
  itemClosed,
  itemOpened,
  opaqueAdded,
  partClosed,
  partOpened,
  started,
  usageReported,
} from '../../src/generation/events.ts';
import { webUrls } from '../../src/lib/any-text.fixtures.ts';

/** What answers of a protocol can contain. */
export interface AnswerAbilities {
  readonly protocol: Protocol;
  /** The provider's name, which the parser gets and puts into opaque data. */
  readonly provider: string;
  /** Finish reasons in the protocol's words. */
  readonly natives: Readonly<Partial<Record<FinishReason, string>>>;
  readonly choicesMax: number;
}

/** Texts, also with single surrogates, control characters and characters that JSON and SSE escape. */
export const anyText = fc
  .array(fc.constantFrom('a', 'B', ' ', '\n', '\r', '"', '\\', ':', 'é', '😀', '\u2028', 'data: x'), {
    minLength: 1,
    maxLength: 8,
  })
  .map(pieces => pieces.join(''));

/** Generates a text in pieces that are cut anywhere, also inside a surrogate pair. */
const pieces = (text: fc.Arbitrary<string>): fc.Arbitrary<string[]> =>
  fc.tuple(text, fc.array(fc.nat(12), { maxLength: 3 })).map(([whole, cuts]) => {
    const ends = [...cuts.map(cut => Math.min(cut, whole.length)), whole.length].sort((a, b) => a - b);
    return ends.map((end, index) => whole.slice(ends[index - 1] ?? 0, end)).filter(piece => piece !== '');
  });

const jsonText = fc
  .dictionary(fc.constantFrom('city', 'unit', 'n'), fc.oneof(fc.integer(), anyText))
  .map(value => JSON.stringify(value));
const name = fc.constantFrom('get_weather', 'now', 'search-2');

type Step = (at: { choice: number; item: number }) => GenerationEvent[];

const token = fc
  .record({
    token: anyText,
    logprob: fc.double({ min: -20, max: 0, noNaN: true }),
    bytes: fc.uint8Array({ maxLength: 3 }),
  })
  .map(({ token: text, logprob, bytes }) => ({ token: text, logprob: logprob + 0, utf8: bytes }));
const scored: fc.Arbitrary<TokenLogprob[]> = fc.array(
  fc.tuple(token, fc.array(token, { maxLength: 2 })).map(([one, top]) => ({
    $typeName: 'tollgate.v1.TokenLogprob' as const,
    ...one,
    top: top.map(each => ({ $typeName: 'tollgate.v1.TopLogprob' as const, ...each })),
  })),
  { maxLength: 2 },
);

function arbitraryAnnotations(protocol: Protocol): fc.Arbitrary<Annotation[]> {
  const url = fc
    .record({ url: webUrls, title: anyText, startIndex: fc.nat(99), endIndex: fc.nat(99) })
    .map((fields): Annotation['annotation'] => ({ case: 'urlCitation', value: urlCitation(fields) }));
  const other = anyText.map((text): Annotation['annotation'] => ({
    case: 'other',
    value: toExtra(protocol, JSON.stringify({ type: 'file_citation', quote: text })),
  }));
  const annotation = fc
    .oneof(url, other)
    .map((value): Annotation => ({ $typeName: 'tollgate.v1.Annotation', annotation: value }));
  return fc.array(annotation, { maxLength: 1 });
}

function written(
  kind: DeltaKind,
  part: number,
  texts: readonly string[],
  logprobs: readonly TokenLogprob[][] = [],
): Step {
  return ({ choice, item }) =>
    texts.map((text, index) => delta(choice, [item, part], { kind, text, logprobs: logprobs[index] ?? [] }));
}

function partSteps(part: number, content: Part['content'], inside: readonly Step[]): Step[] {
  return [
    ({ choice, item }) => [partOpened(choice, [item, part], makePart(content))],
    ...inside,
    ({ choice, item }) => [partClosed(choice, [item, part])],
  ];
}

/** An item: its start, its content, and, if it is a call, whether its arguments are complete. */
interface ItemPlan {
  readonly kind: 'message' | 'reasoning' | 'call';
  readonly item: Item;
  readonly steps: readonly Step[];
  readonly isWhole: boolean;
}

function messagePlan(abilities: AnswerAbilities): fc.Arbitrary<ItemPlan> {
  const words = fc.tuple(pieces(anyText), fc.array(scored, { maxLength: 3 }), arbitraryAnnotations(abilities.protocol));
  return fc.tuple(fc.option(words), fc.option(pieces(anyText))).map(([text, refusal]) => {
    const steps: Step[] = [];
    const [texts, logprobs, annotations] = text ?? [refusal === null ? ['only text'] : [], [], []];
    if (texts.length > 0) {
      const cited = annotations.map(
        (annotation): Step =>
          ({ choice, item }) => [annotationAdded(choice, [item, 0], annotation)],
      );
      steps.push(...partSteps(0, textContent(''), [written(DeltaKind.TEXT, 0, texts, logprobs), ...cited]));
    }
    if (refusal !== null) {
      const part = texts.length > 0 ? 1 : 0;
      steps.push(...partSteps(part, refusalContent(''), [written(DeltaKind.REFUSAL, part, refusal)]));
    }
    return { kind: 'message', item: makeItem(messageContent(Role.ASSISTANT, []), 0), steps, isWhole: true };
  });
}

function reasoningPlan({ provider }: AnswerAbilities): fc.Arbitrary<ItemPlan> {
  const reasoningItems = fc.tuple(
    pieces(anyText),
    fc.constantFrom('text', 'signed', 'summary', 'sealed', 'redacted'),
    fc.base64String({ minLength: 4 }),
  );
  return reasoningItems.map(([texts, form, data]) => {
    const makeOpaque =
      (kind: string): Step =>
      ({ choice, item }) => [opaqueAdded(choice, item, sealed(kind, data, provider))];
    const asText = partSteps(0, reasoningTextContent(''), [written(DeltaKind.REASONING, 0, texts)]);
    const asSummary = partSteps(0, summaryTextContent(''), [written(DeltaKind.SUMMARY, 0, texts)]);
    const stepsByForm: Record<typeof form, readonly Step[]> = {
      text: asText,
      signed: [...asText, makeOpaque('anthropic.signature')],
      summary: asSummary,
      sealed: [...asSummary, makeOpaque('openai.encrypted')],
      redacted: [makeOpaque('anthropic.redacted')],
    };
    const item = makeItem(reasoningContent({ redacted: form === 'redacted' }), 0);
    return { kind: 'reasoning', item, steps: stepsByForm[form], isWhole: true };
  });
}

function sealed(kind: string, data: string, provider: string): Opaque {
  return makeOpaque(kind, data, provider);
}

function callPlan(canBeCut: boolean): fc.Arbitrary<ItemPlan> {
  const args = fc.tuple(jsonText, fc.boolean()).map(([whole, cut]) => (cut && canBeCut ? whole.slice(0, -1) : whole));
  return fc
    .tuple(fc.uuid(), name, pieces(args), fc.constantFrom(ToolKind.FUNCTION, ToolKind.CUSTOM))
    .map(([id, tool, texts, kind]) => ({
      kind: 'call',
      item: makeItem(toolCallContent({ callId: `call_${id}`, name: tool, kind }), 0),
      steps: [written(DeltaKind.ARGUMENTS, 0, texts)],
      isWhole: texts.join('').endsWith('}'),
    }));
}

/**
 * Generates items that a protocol without items can distinguish: no two adjacent messages, calls at the end, and only the last item
 * cut.
 */
function itemPlans(abilities: AnswerAbilities, isCut: boolean): fc.Arbitrary<ItemPlan[]> {
  const block = fc.tuple(fc.array(reasoningPlan(abilities), { maxLength: 2 }), fc.option(messagePlan(abilities)));
  return fc
    .tuple(block, fc.option(block), fc.array(callPlan(false), { maxLength: 2 }), fc.option(callPlan(isCut)))
    .map(([[reasoningItems, message], second, calls, lastCall]) => {
      const first = [...reasoningItems, ...(message === null ? [] : [message])];
      const again =
        second === null || (second[0].length === 0 && message !== null)
          ? []
          : [...second[0], ...(second[1] === null ? [] : [second[1]])];
      return [...first, ...again, ...calls, ...(lastCall === null ? [] : [lastCall])];
    });
}

function chooseStatus(plan: ItemPlan, isLast: boolean, isCut: boolean): ItemStatus {
  if (!isCut) return ItemStatus.COMPLETED;
  if (plan.kind !== 'call') return isLast ? ItemStatus.INCOMPLETE : ItemStatus.COMPLETED;
  const custom = plan.item.content.case === 'toolCall' && plan.item.content.value.kind === ToolKind.CUSTOM;
  return custom || !plan.isWhole ? ItemStatus.INCOMPLETE : ItemStatus.COMPLETED;
}

const arbitraryExtension = (protocol: Protocol, choice: number): fc.Arbitrary<GenerationEvent> =>
  fc
    .tuple(
      fc.constantFrom(...(choice === 0 ? [ExtensionScope.RESPONSE] : []), ExtensionScope.CHOICE, ExtensionScope.DELTA),
      anyText,
    )
    .map(([scope, text]) =>
      extension(choice, scope, toExtra(protocol, JSON.stringify({ x_unknown: text, x_nested: { a: [1] } }))),
    );

function choiceEvents(abilities: AnswerAbilities, choice: number): fc.Arbitrary<GenerationEvent[]> {
  const reasons = [FinishReason.STOP, FinishReason.LENGTH, FinishReason.CONTENT_FILTER];
  return fc.constantFrom(...reasons).chain(reason => {
    const isCut = reason !== FinishReason.STOP;
    return fc
      .tuple(
        itemPlans(abilities, isCut),
        fc.array(arbitraryExtension(abilities.protocol, choice), { maxLength: 2 }),
        fc.nat(),
      )
      .map(([plans, extensions, seed]) => {
        const events = plans.flatMap((plan, item) => [
          itemOpened(choice, item, plan.item),
          ...plan.steps.flatMap(step => step({ choice, item })),
          itemClosed(choice, item, chooseStatus(plan, item === plans.length - 1, isCut)),
        ]);
        for (const [index, each] of extensions.entries()) events.splice((seed >> index) % (events.length + 1), 0, each);
        const called = plans.some(plan => plan.kind === 'call');
        const ended = called && !isCut ? FinishReason.TOOL_CALLS : reason;
        return [...events, finished(choice, ended, { native: abilities.natives[ended] ?? '' })];
      });
  });
}

const count = fc.nat(100_000);
const usage: fc.Arbitrary<Usage> = fc
  .record({
    input: count,
    read: count,
    write5m: count,
    write1h: fc.integer({ min: 1, max: 1_000 }),
    output: fc.integer({ min: 1, max: 100_000 }),
    part: fc.double({ min: 0, max: 1, noNaN: true }),
    has1h: fc.boolean(),
  })
  .map(({ input, read, write5m, write1h, output, part, has1h }) => ({
    $typeName: 'tollgate.v1.Usage',
    unpriced: [],
    inputTokens: input,
    cacheReadTokens: read,
    cacheWrite5mTokens: write5m,
    ...(has1h ? { cacheWrite1hTokens: write1h } : {}),
    outputTokens: output,
    reasoningTokens: Math.floor(output * part),
  }));

/** Interleaves the events of the choices. The events of one choice keep their order. */
function mingled(choices: readonly GenerationEvent[][], seed: number): GenerationEvent[] {
  const rest = choices.map(events => [...events]);
  const all: GenerationEvent[] = [];
  for (let turn = seed; rest.some(events => events.length > 0); turn = (turn * 7 + 3) % 1_009) {
    const left = rest.filter(events => events.length > 0);
    const next = left[turn % left.length]?.shift();
    if (next !== undefined) all.push(next);
  }
  return all;
}

/** Generates whole answers, from `started` to `completed`. */
export function answers(abilities: AnswerAbilities): fc.Arbitrary<GenerationEvent[]> {
  const choices = fc
    .integer({ min: 1, max: abilities.choicesMax })
    .chain(size => fc.tuple(...Array.from({ length: size }, (_, choice) => choiceEvents(abilities, choice))));
  const tier = fc.constantFrom(ServiceTier.DEFAULT, ServiceTier.FLEX, ServiceTier.PRIORITY);
  return fc
    .tuple(choices, fc.nat(1_000), usage, tier)
    .map(([each, seed, counts, serviceTier]) => [
      started({ requestId: 'req_1', model: 'acme/large', createdAtMs: 1_790_000_000_000n, systemFingerprint: 'fp_1' }),
      ...mingled(each, seed),
      usageReported(counts),
      completed({ usage: counts, usageSource: UsageSource.REPORTED, costNanoUsd: 1_234_567n, serviceTier }),
    ]);
}
