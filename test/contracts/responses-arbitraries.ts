/**
 * Arbitraries for the Responses interface: answers of an upstream, and requests as the decoder returns them.
 */
import fc from 'fast-check';
import {
  type Annotation,
  type Item,
  ItemStatus,
  type Part,
  Phase,
  Protocol,
  Role,
  type TokenLogprob,
  ToolKind,
} from '../../src/gen/tollgate/v1/content_pb.ts';
import {
  DeltaKind,
  ExtensionScope,
  FinishReason,
  type GenerationEvent,
  UsageSource,
} from '../../src/gen/tollgate/v1/event_pb.ts';
import {
  Delivery,
  Endpoint,
  type GenerateRequest,
  type OutputFormat,
  OutputFormatType,
  ReasoningEffort,
  ServiceTier,
  ThinkingMode,
  type Tool,
  type ToolChoice,
  ToolChoiceMode,
  type ToolName,
  Truncation,
} from '../../src/gen/tollgate/v1/request_pb.ts';
import {
  toExtra,
  imageContent,
  makeItem,
  mediaSource,
  messageContent,
  makeOpaque,
  makePart,
  reasoningContent,
  refusalContent,
  makeRequest,
  makeSampling,
  summaryTextContent,
  textContent,
  toolCallContent,
  toolResultContent,
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
  partClosed,
  partOpened,
  started,
  usageReported,
} from '../../src/generation/events.ts';
import { renumberTurns } from '../../src/generation/turns.ts';
import { anyText } from './answer-arbitraries.ts';
import { webUrls } from '../../src/lib/any-text.fixtures.ts';

const pieces = fc
  .tuple(anyText, fc.nat(8))
  .map(([text, at]) => [text.slice(0, at), text.slice(at)].filter(each => each !== ''));
const jsonText = fc
  .dictionary(fc.constantFrom('city', 'n'), fc.oneof(fc.integer(), anyText))
  .map(value => JSON.stringify(value));
const maybe = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined });

/** Returns the fields that are not undefined. */
function defined<T extends object>(fields: T): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}

const token = fc
  .record({
    token: anyText,
    logprob: fc.double({ min: -20, max: 0, noNaN: true }),
    bytes: fc.uint8Array({ maxLength: 3 }),
  })
  .map(({ token: text, logprob, bytes }) => ({ token: text, logprob: logprob + 0, utf8: bytes }));
const tokenLogprobs: fc.Arbitrary<TokenLogprob[]> = fc.array(
  fc.tuple(token, fc.array(token, { maxLength: 2 })).map(([one, top]) => ({
    $typeName: 'tollgate.v1.TokenLogprob' as const,
    ...one,
    top: top.map(each => ({ $typeName: 'tollgate.v1.TopLogprob' as const, ...each })),
  })),
  { maxLength: 2 },
);
const annotation: fc.Arbitrary<Annotation> = fc
  .oneof(
    fc
      .record({ url: webUrls, title: anyText, startIndex: fc.nat(99), endIndex: fc.nat(99) })
      .map((fields): Annotation['annotation'] => ({ case: 'urlCitation', value: urlCitation(fields) })),
    anyText.map((text): Annotation['annotation'] => ({
      case: 'other',
      value: toExtra(
        Protocol.RESPONSES,
        JSON.stringify({ type: 'file_citation', file_id: text, filename: 'a.txt', index: 0 }),
      ),
    })),
  )
  .map(value => ({ $typeName: 'tollgate.v1.Annotation', annotation: value }));

/** Returns the events of an item. `isCut`: the item is the last one of an answer that a limit or a content filter cut. */
type MakeItemEvents = (item: number, isCut: boolean) => GenerationEvent[];

function closed(item: number, isCut: boolean, phase: Phase = Phase.UNSPECIFIED): GenerationEvent {
  const event = itemClosed(0, item, isCut ? ItemStatus.INCOMPLETE : ItemStatus.COMPLETED);
  if (event.event.case === 'itemClosed') event.event.value.phase = phase;
  return event;
}

/** Generates a message. `refuses`: the answer ends with a refusal text. */
const message = (refuses: boolean): fc.Arbitrary<MakeItemEvents> =>
  fc
    .record({
      parts: fc.array(
        fc.record({ texts: pieces, logprobs: fc.array(tokenLogprobs, { maxLength: 2 }), cited: fc.option(annotation) }),
        { minLength: refuses ? 0 : 1, maxLength: 2 },
      ),
      refusal: pieces,
      phase: fc.constantFrom(Phase.COMMENTARY, Phase.FINAL_ANSWER),
    })
    .map(
      ({ parts, refusal, phase }): MakeItemEvents =>
        (item, isCut) => [
          itemOpened(0, item, makeItem(messageContent(Role.ASSISTANT, []), 0)),
          ...parts.flatMap(({ texts, logprobs, cited }, part) => [
            partOpened(0, [item, part], makePart(textContent(''))),
            ...texts.map((text, index) =>
              delta(0, [item, part], { kind: DeltaKind.TEXT, text, logprobs: logprobs[index] ?? [] }),
            ),
            ...(cited === null ? [] : [annotationAdded(0, [item, part], cited)]),
            partClosed(0, [item, part]),
          ]),
          ...(refuses
            ? [
                partOpened(0, [item, parts.length], makePart(refusalContent(''))),
                ...refusal.map(text => delta(0, [item, parts.length], { kind: DeltaKind.REFUSAL, text })),
                partClosed(0, [item, parts.length]),
              ]
            : []),
          closed(item, isCut, phase),
        ],
    );

const reasoning: fc.Arbitrary<MakeItemEvents> = fc.array(pieces, { maxLength: 2 }).map(
  (parts): MakeItemEvents =>
    (item, isCut) => [
      itemOpened(0, item, makeItem(reasoningContent({}), 0)),
      ...parts.flatMap((texts, part) => [
        partOpened(0, [item, part], makePart(summaryTextContent(''))),
        ...texts.map(text => delta(0, [item, part], { kind: DeltaKind.SUMMARY, text })),
        partClosed(0, [item, part]),
      ]),
      closed(item, isCut),
    ],
);

const call: fc.Arbitrary<MakeItemEvents> = fc
  .record({
    id: fc.uuid(),
    kind: fc.constantFrom(ToolKind.FUNCTION, ToolKind.CUSTOM),
    args: jsonText,
    text: anyText,
    at: fc.nat(8),
  })
  .map(
    ({ id, kind, args, text, at }): MakeItemEvents =>
      (item, isCut) => {
        const whole = kind === ToolKind.CUSTOM ? text : args;
        const written = isCut ? whole.slice(0, -1).toWellFormed() : whole;
        return [
          itemOpened(0, item, makeItem(toolCallContent({ callId: `call_${id}`, name: 'get_weather', kind }), 0)),
          ...[written.slice(0, at), written.slice(at)]
            .filter(each => each !== '')
            .map(each => delta(0, [item, 0], { kind: DeltaKind.ARGUMENTS, text: each })),
          closed(item, isCut),
        ];
      },
  );

/** Generates web searches that the upstream ran. They arrive complete, without deltas. */
const search: fc.Arbitrary<MakeItemEvents> = fc.tuple(fc.uuid(), anyText).map(
  ([id, query]): MakeItemEvents =>
    item => {
      const call = { id: `ws_${id}`, type: 'web_search_call', status: 'completed', action: { type: 'search', query } };
      const json = JSON.stringify(call);
      const value = { $typeName: 'tollgate.v1.ServerTool', protocol: Protocol.RESPONSES, json } as const;
      return [itemOpened(0, item, makeItem({ case: 'serverTool', value }, 0)), closed(item, false)];
    },
);

const count = fc.nat(100_000);
const outline = fc.constantFrom('stop', 'length', 'filter', 'refusal').chain(end =>
  fc.tuple(
    fc.constant(end),
    fc.array(fc.oneof(message(false), reasoning, call, search), {
      minLength: end === 'refusal' ? 0 : 1,
      maxLength: 4,
    }),
    end === 'refusal' ? message(true) : fc.constant(undefined),
  ),
);

/** Generates whole answers, from `started` to `completed`. */
export const responsesAnswers: fc.Arbitrary<GenerationEvent[]> = fc
  .record({
    outline,
    counts: fc.tuple(count, count, count, fc.integer({ min: 1, max: 99 }), fc.integer({ min: 1, max: 100_000 })),
    has1h: fc.boolean(),
    tier: fc.constantFrom(ServiceTier.DEFAULT, ServiceTier.FLEX, ServiceTier.PRIORITY),
    member: fc.option(anyText),
  })
  .map(({ outline: [end, before, refusal], counts, has1h, tier, member }) => {
    const all = refusal === undefined ? before : [...before, refusal];
    const isCut = end === 'length' || end === 'filter';
    const events = all.flatMap((makeEvents, item) => makeEvents(item, isCut && item === all.length - 1));
    const hasCalls = events.some(
      ({ event }) => event.case === 'itemOpened' && event.value.content?.content.case === 'toolCall',
    );
    const [input, read, write5m, write1h, output] = counts;
    const usage = {
      $typeName: 'tollgate.v1.Usage' as const,
      unpriced: [],
      inputTokens: input,
      cacheReadTokens: read,
      cacheWrite5mTokens: write5m,
      ...(has1h ? { cacheWrite1hTokens: write1h } : {}),
      outputTokens: output,
      reasoningTokens: Math.floor(output / 2),
    };
    const ends = {
      stop: hasCalls
        ? finished(0, FinishReason.TOOL_CALLS, { native: 'completed' })
        : finished(0, FinishReason.STOP, { native: 'completed' }),
      length: finished(0, FinishReason.LENGTH, { native: 'max_output_tokens' }),
      filter: finished(0, FinishReason.CONTENT_FILTER, { native: 'content_filter' }),
      refusal: finished(0, FinishReason.CONTENT_FILTER, { native: 'content_filter' }),
    };
    return [
      started({ requestId: 'req_1', model: 'acme/large', createdAtMs: 1_790_000_000_000n }),
      ...events,
      ...(member === null
        ? []
        : [extension(0, ExtensionScope.RESPONSE, toExtra(Protocol.RESPONSES, JSON.stringify({ x_unknown: member })))]),
      usageReported(usage),
      ends[end],
      completed({
        usage,
        usageSource: UsageSource.REPORTED,
        costNanoUsd: 1_234_567n,
        serviceTier: tier,
        completedAtMs: 1_790_000_001_999n,
      }),
    ];
  });

const name = fc.constantFrom('get_weather', 'now', 'search-2', 'n'.repeat(64));
const schemaJson = fc
  .dictionary(fc.constantFrom('type', 'properties', 'x'), fc.oneof(anyText, fc.constant(null)))
  .map(value => JSON.stringify(value));
const base64 = fc.base64String({ minLength: 4, maxLength: 16 });
const textPart = anyText.map(text => makePart(textContent(text)));
const detail = fc.constantFrom('', 'low', 'high', 'auto', 'original');
const file = fc
  .tuple(base64, fc.constantFrom('application/pdf', ''), fc.constantFrom('a.pdf', ''))
  .map(([data, type, filename]) =>
    makePart({
      case: 'file',
      value: {
        $typeName: 'tollgate.v1.FilePart',
        source: mediaSource({ case: 'base64', value: data }, type),
        filename,
        title: '',
        context: '',
      },
    }),
  );
const image = fc.oneof(
  fc
    .tuple(base64, detail)
    .map(([data, each]) => makePart(imageContent(mediaSource({ case: 'base64', value: data }, 'image/png'), each))),
  fc
    .tuple(webUrls, detail)
    .map(([url, each]) => makePart(imageContent(mediaSource({ case: 'url', value: url }), each))),
  detail.map(each => makePart(imageContent(mediaSource({ case: 'fileId', value: 'file_1' }), each))),
);
const video = webUrls.map(url => {
  const source = mediaSource({ case: 'url', value: url });
  return makePart({ case: 'video', value: { $typeName: 'tollgate.v1.VideoPart', source } });
});
const userPart: fc.Arbitrary<Part> = fc.oneof(textPart, image, file);
const resultPart: fc.Arbitrary<Part> = fc.oneof(textPart, image, file, video);
const unknownMembers = fc
  .option(anyText)
  .map(text => (text === null ? undefined : toExtra(Protocol.RESPONSES, JSON.stringify({ x_unknown: text }))));

/** Generates an item, or a tool call and its result. There are no unknown members, because the tests demand that nothing is listed as unknown. */
const itemGroup: fc.Arbitrary<Item[]> = fc.oneof(
  fc
    .tuple(
      fc.constantFrom(Role.USER, Role.SYSTEM, Role.DEVELOPER),
      fc.array(textPart, { minLength: 1, maxLength: 2 }),
      fc.array(userPart, { maxLength: 2 }),
    )
    .map(([role, texts, parts]) => [
      makeItem(messageContent(role, role === Role.USER ? [...texts, ...parts] : texts), 0),
    ]),
  fc
    .tuple(
      fc.array(
        fc.oneof(
          textPart,
          anyText.map(text => makePart(refusalContent(text))),
        ),
        { minLength: 1, maxLength: 2 },
      ),
      fc.constantFrom(Phase.UNSPECIFIED, Phase.COMMENTARY, Phase.FINAL_ANSWER),
    )
    .map(([parts, phase]) => {
      const content = messageContent(Role.ASSISTANT, parts);
      if (content.case === 'message') content.value.phase = phase;
      return [makeItem(content, 0)];
    }),
  fc.tuple(fc.array(anyText, { maxLength: 2 }), base64).map(([texts, data]) => {
    const parts = texts.map(text => makePart(summaryTextContent(text)));
    return [
      { ...makeItem(reasoningContent({ parts, opaque: [makeOpaque('openai.encrypted', data)] }), 0), id: 'rs_1' },
    ];
  }),
  base64.map(data => {
    const opaque = makeOpaque('openai.compaction', data);
    return [makeItem({ case: 'compaction', value: { $typeName: 'tollgate.v1.Compaction', opaque } }, 0)];
  }),
  fc
    .record({
      id: fc.uuid(),
      calledTool: name,
      kind: fc.constantFrom(ToolKind.FUNCTION, ToolKind.CUSTOM),
      text: fc.oneof(jsonText, anyText),
      result: fc.oneof(
        anyText.map(text => ({ plain: true, parts: [makePart(textContent(text))] })),
        fc.array(resultPart, { maxLength: 2 }).map(parts => ({ plain: false, parts })),
      ),
    })
    .map(({ id, calledTool, kind, text, result }) => [
      makeItem(toolCallContent({ callId: id, name: calledTool, kind, arguments: text }), 0),
      makeItem(toolResultContent({ callId: id, kind, ...result }), 0),
    ]),
);

const tool: fc.Arbitrary<Tool> = fc.oneof(
  fc
    .record({
      name,
      description: maybe(anyText),
      parametersJson: fc.oneof(schemaJson, fc.constant('')),
      strict: maybe(fc.boolean()),
    })
    .map(
      (fields): Tool => ({
        $typeName: 'tollgate.v1.Tool',
        tool: { case: 'function', value: { $typeName: 'tollgate.v1.FunctionTool', ...fields } },
      }),
    ),
  fc
    .record({
      name,
      description: maybe(anyText),
      formatJson: fc.constantFrom(
        '',
        '{"type":"text"}',
        '{"type":"grammar","grammar":{"syntax":"lark","definition":"start: WORD"}}',
      ),
    })
    .map(
      (fields): Tool => ({
        $typeName: 'tollgate.v1.Tool',
        tool: { case: 'custom', value: { $typeName: 'tollgate.v1.CustomTool', ...fields } },
      }),
    ),
  fc.constant<Tool>({
    $typeName: 'tollgate.v1.Tool',
    tool: {
      case: 'hosted',
      value: {
        $typeName: 'tollgate.v1.HostedTool',
        protocol: Protocol.RESPONSES,
        type: 'web_search',
        json: '{"type":"web_search","search_context_size":null}',
      },
    },
  }),
);
const toolName = fc
  .oneof(
    fc.record({ name, kind: fc.constantFrom(ToolKind.FUNCTION, ToolKind.CUSTOM) }),
    fc.constant({ name: 'web_search', kind: ToolKind.UNSPECIFIED }),
  )
  .map((fields): ToolName => ({ $typeName: 'tollgate.v1.ToolName', ...fields }));
const modes = fc.constantFrom(ToolChoiceMode.AUTO, ToolChoiceMode.NONE, ToolChoiceMode.REQUIRED);
const toolChoice: fc.Arbitrary<ToolChoice> = fc
  .oneof(
    modes.map(mode => ({ mode, tools: [] as ToolName[], restricted: false })),
    toolName.map(each => ({ mode: ToolChoiceMode.NAMED, tools: [each], restricted: false })),
    fc
      .tuple(modes, fc.array(toolName, { minLength: 1, maxLength: 2 }))
      .map(([mode, tools]) => ({ mode, tools, restricted: true })),
  )
  .map((fields): ToolChoice => ({ $typeName: 'tollgate.v1.ToolChoice', ...fields }));

const format: fc.Arbitrary<OutputFormat> = fc
  .oneof(
    fc
      .constantFrom(OutputFormatType.TEXT, OutputFormatType.JSON_OBJECT)
      .map(type => ({ type, name: '', schemaJson: '' })),
    fc.record({ name, description: maybe(anyText), schemaJson, strict: maybe(fc.boolean()) }).map(fields => ({
      type: OutputFormatType.JSON_SCHEMA,
      ...fields,
    })),
  )
  .map((fields): OutputFormat => defined({ $typeName: 'tollgate.v1.OutputFormat', ...fields }));

const efforts = [
  ReasoningEffort.NONE,
  ReasoningEffort.MINIMAL,
  ReasoningEffort.LOW,
  ReasoningEffort.MEDIUM,
  ReasoningEffort.HIGH,
  ReasoningEffort.XHIGH,
  ReasoningEffort.MAX,
] as const;
const penalty = fc.double({ min: -2, max: 2, noNaN: true }).map(value => value + 0);

/**
 * Generates requests that a Responses body can express, in the form in which they are sent to an upstream: with `store: false`, so
 * `include` asks for encrypted reasoning.
 */
export const responsesRequests: fc.Arbitrary<GenerateRequest> = fc
  .record({
    items: fc.array(itemGroup, { minLength: 1, maxLength: 5 }),
    delivery: fc.constantFrom(Delivery.STREAMED, Delivery.WHOLE),
    serviceTier: fc.constantFrom(ServiceTier.UNSPECIFIED, ServiceTier.FLEX, ServiceTier.PRIORITY),
    toolFields: fc.oneof(
      fc.constant({ tools: [] as Tool[] }),
      fc.record({
        tools: fc.array(tool, { minLength: 1, maxLength: 3 }),
        toolChoice: maybe(toolChoice),
        parallelToolCalls: maybe(fc.boolean()),
      }),
    ),
    optional: fc.record({
      instructions: maybe(anyText),
      maxToolCalls: maybe(fc.integer({ min: 1, max: 100 })),
      maxOutputTokens: maybe(fc.integer({ min: 16, max: 2 ** 32 - 1 })),
      outputFormat: maybe(format),
      verbosity: maybe(fc.constantFrom('low', 'medium', 'high')),
      promptCacheKey: maybe(fc.constant('key')),
      safetyIdentifier: maybe(anyText),
      user: maybe(anyText),
    }),
    effort: maybe(fc.constantFrom(...efforts)),
    summary: maybe(fc.constantFrom('auto', 'concise', 'detailed')),
    sampling: fc.record({
      temperature: maybe(fc.double({ min: 0, max: 2, noNaN: true })),
      topP: maybe(fc.double({ min: 0, max: 1, noNaN: true })),
      frequencyPenalty: maybe(penalty),
      presencePenalty: maybe(penalty),
    }),
    topLogprobs: maybe(fc.nat(20)),
  })
  .map(({ items, toolFields, optional, effort, summary, sampling, topLogprobs, ...rest }) => {
    const conversation = renumberTurns(items.flat());
    const reasons = effort !== undefined && effort !== ReasoningEffort.NONE;
    const wantsEncryptedReasoning = reasons || conversation.some(({ content }) => content.case === 'reasoning');
    const logprobFields = topLogprobs === undefined ? {} : { logprobs: true, topLogprobs };
    const samplingFields = defined({ ...sampling, ...logprobFields });
    const reasoning = {
      $typeName: 'tollgate.v1.ReasoningConfig' as const,
      effort: effort ?? ReasoningEffort.UNSPECIFIED,
      thinking: ThinkingMode.UNSPECIFIED,
      ...(summary === undefined ? {} : { summary }),
    };
    return makeRequest({
      model: 'acme/large',
      endpoint: Endpoint.RESPONSES,
      items: conversation,
      truncation: Truncation.UNSPECIFIED,
      store: false,
      include: [
        ...(topLogprobs === undefined ? [] : ['message.output_text.logprobs']),
        ...(wantsEncryptedReasoning ? ['reasoning.encrypted_content'] : []),
      ],
      ...rest,
      ...defined(toolFields),
      ...defined(optional),
      ...(effort === undefined && summary === undefined ? {} : { reasoning }),
      ...(Object.keys(samplingFields).length === 0 ? {} : { sampling: makeSampling(samplingFields) }),
    });
  });

/** Generates Responses requests with unknown members in their items. */
export const strangeRequests: fc.Arbitrary<GenerateRequest> = fc
  .tuple(responsesRequests, fc.array(unknownMembers, { minLength: 1, maxLength: 4 }))
  .map(([request, extras]) => {
    const items = request.items.map((each, index) => {
      const extra = extras[index % extras.length];
      return extra === undefined ? each : { ...each, extra };
    });
    return { ...request, items };
  });

/** Returns an answer without phases, as an upstream without phases would send it. */
export function withoutPhases(events: readonly GenerationEvent[]): GenerationEvent[] {
  return events.map(each => {
    const { event } = each;
    if (event.case !== 'itemClosed') return each;
    return { ...each, event: { ...event, value: { ...event.value, phase: Phase.UNSPECIFIED } } };
  });
}
