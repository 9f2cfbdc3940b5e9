/**
 * What Messages can contain: generated answers of an upstream, and generated requests that the decoder could return.
 */
import fc from 'fast-check';
import { type Item, type Part, Protocol, Role, ToolKind } from '../../src/gen/tollgate/v1/content_pb.ts';
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
  OutputFormatType,
  ReasoningEffort,
  ServiceTier,
  ThinkingMode,
  ToolChoiceMode,
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
  reasoningTextContent,
  makeRequest,
  makeSampling,
  textContent,
  toolCallContent,
  toolResultContent,
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
import { anyText } from './answer-arbitraries.ts';
import { webUrls } from '../../src/lib/any-text.fixtures.ts';

const provider = 'acme';
const pieces = fc
  .tuple(anyText, fc.nat(8))
  .map(([text, at]) => [text.slice(0, at), text.slice(at)].filter(each => each !== ''));
const jsonText = fc
  .dictionary(fc.constantFrom('city', 'n'), fc.oneof(fc.integer(), anyText))
  .map(value => JSON.stringify(value));
const blob = fc.base64String({ minLength: 4 });

type Block = (item: number) => GenerationEvent[];
const block: fc.Arbitrary<Block> = fc.oneof(
  fc.tuple(pieces, fc.option(anyText)).map(
    ([texts, quote]): Block =>
      item => [
        itemOpened(0, item, makeItem(messageContent(Role.ASSISTANT, []), 0)),
        partOpened(0, [item, 0], makePart(textContent(''))),
        ...texts.map(text => delta(0, [item, 0], { kind: DeltaKind.TEXT, text })),
        ...(quote === null
          ? []
          : [
              annotationAdded(0, [item, 0], {
                $typeName: 'tollgate.v1.Annotation',
                annotation: {
                  case: 'other',
                  value: toExtra(Protocol.MESSAGES, JSON.stringify({ type: 'char_location', cited_text: quote })),
                },
              }),
            ]),
        partClosed(0, [item, 0]),
        itemClosed(0, item),
      ],
  ),
  fc.tuple(pieces, blob, fc.constantFrom('anthropic.signature', 'openai.encrypted')).map(
    ([texts, data, kind]): Block =>
      item => [
        itemOpened(0, item, makeItem(reasoningContent({}), 0)),
        partOpened(0, [item, 0], makePart(reasoningTextContent(''))),
        ...texts.map(text => delta(0, [item, 0], { kind: DeltaKind.REASONING, text })),
        partClosed(0, [item, 0]),
        opaqueAdded(0, item, makeOpaque(kind, data, provider)),
        itemClosed(0, item),
      ],
  ),
  blob.map(
    (data): Block =>
      item => [
        itemOpened(0, item, makeItem(reasoningContent({ redacted: true }), 0)),
        opaqueAdded(0, item, makeOpaque('anthropic.redacted', data, provider)),
        itemClosed(0, item),
      ],
  ),
  fc.tuple(fc.uuid(), jsonText, fc.nat(8)).map(
    ([id, args, at]): Block =>
      item => [
        itemOpened(0, item, makeItem(toolCallContent({ callId: `toolu_${id}`, name: 'get_weather' }), 0)),
        ...[args.slice(0, at), args.slice(at)]
          .filter(text => text !== '')
          .map(text => delta(0, [item, 0], { kind: DeltaKind.ARGUMENTS, text })),
        itemClosed(0, item),
      ],
  ),
  jsonText.map(
    (input): Block =>
      item => [
        itemOpened(
          0,
          item,
          makeItem(
            {
              case: 'serverTool',
              value: {
                $typeName: 'tollgate.v1.ServerTool',
                protocol: Protocol.MESSAGES,
                json: JSON.stringify({
                  type: 'server_tool_use',
                  id: 's1',
                  name: 'web_search',
                  input: JSON.parse(input) as unknown,
                }),
              },
            },
            0,
          ),
        ),
        itemClosed(0, item),
      ],
  ),
);

const count = fc.nat(100_000);
/** Generates whole answers, from `started` to `completed`. */
export const messagesAnswers: fc.Arbitrary<GenerationEvent[]> = fc
  .record({
    blocks: fc.array(block, { minLength: 1, maxLength: 4 }),
    counts: fc.tuple(count, count, count, fc.integer({ min: 1, max: 99 }), fc.integer({ min: 1, max: 100_000 })),
    has1h: fc.boolean(),
    tier: fc.constantFrom(ServiceTier.DEFAULT, ServiceTier.FLEX, ServiceTier.PRIORITY),
    member: fc.option(anyText),
    end: fc.constantFrom('stop', 'sequence', 'length', 'filter'),
  })
  .map(({ blocks, counts, has1h, tier, member, end }) => {
    const events = blocks.flatMap((each, item) => each(item));
    const calls = events.some(
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
    const details = JSON.stringify({ type: 'refusal', category: null, explanation: null });
    const ends = {
      stop: finished(0, FinishReason.STOP, { native: 'end_turn' }),
      sequence: finished(0, FinishReason.STOP, { native: 'stop_sequence', matchedStop: 'END' }),
      length: finished(0, FinishReason.LENGTH, { native: 'max_tokens' }),
      filter: finished(0, FinishReason.CONTENT_FILTER, { native: 'content_filter', detailsJson: details }),
    };
    const isCalled = calls && (end === 'stop' || end === 'sequence');
    return [
      started({ requestId: 'req_1', model: 'acme/large', createdAtMs: 1_790_000_000_000n }),
      ...events,
      ...(member === null
        ? []
        : [extension(0, ExtensionScope.RESPONSE, toExtra(Protocol.MESSAGES, JSON.stringify({ x_unknown: member })))]),
      usageReported(usage),
      isCalled ? finished(0, FinishReason.TOOL_CALLS, { native: 'tool_use' }) : ends[end],
      completed({ usage, usageSource: UsageSource.REPORTED, costNanoUsd: 1_234_567n, serviceTier: tier }),
    ];
  });

const cache = fc.constantFrom(0, 1, 2).map(lifetime => ({ $typeName: 'tollgate.v1.CacheHint' as const, lifetime }));
const hinted = (content: fc.Arbitrary<Part['content']>): fc.Arbitrary<Part> =>
  fc
    .tuple(content, fc.option(cache))
    .map(([each, hint]) => ({ ...makePart(each), ...(hint === null ? {} : { cache: hint }) }));
const png = 'iVBORw0KGgoAAAANSUhEUg==';
const textPart = hinted(anyText.map(textContent));
const userPart = fc.oneof(
  textPart,
  hinted(fc.constant(imageContent(mediaSource({ case: 'base64', value: png }, 'image/png')))),
  hinted(webUrls.map(url => imageContent(mediaSource({ case: 'url', value: url })))),
  hinted(
    fc
      .tuple(anyText, fc.constantFrom('', 'A title'), fc.boolean())
      .map(([value, title, citations]): Part['content'] => ({
        case: 'file',
        value: {
          $typeName: 'tollgate.v1.FilePart',
          source: mediaSource({ case: 'text', value }, 'text/plain'),
          filename: '',
          title,
          context: '',
          ...(citations ? { citations } : {}),
        },
      })),
  ),
  hinted(
    anyText.map((title): Part['content'] => ({
      case: 'searchResult',
      value: {
        $typeName: 'tollgate.v1.SearchResultPart',
        json: JSON.stringify({ type: 'search_result', source: 's', title, content: [{ type: 'text', text: 'x' }] }),
      },
    })),
  ),
);

type Turn = (turn: number) => Item[];
const requested: fc.Arbitrary<Turn> = fc.array(userPart, { minLength: 1, maxLength: 3 }).map(
  (parts): Turn =>
    turn => [makeItem(messageContent(Role.USER, parts), turn)],
);
/** An answer with reasoning and calls, and the results of the calls. */
const called: fc.Arbitrary<readonly [Turn, Turn]> = fc
  .tuple(
    blob,
    anyText,
    fc.array(jsonText, { minLength: 1, maxLength: 3 }),
    fc.boolean(),
    fc.option(userPart),
    fc.nat(1e9),
  )
  .map(([data, text, inputs, isError, then, seed]) => [
    turn => [
      makeItem(
        reasoningContent({
          parts: [makePart(reasoningTextContent(text))],
          opaque: [makeOpaque('anthropic.signature', data)],
        }),
        turn,
      ),
      makeItem(messageContent(Role.ASSISTANT, [makePart(textContent(text))]), turn),
      ...inputs.map((args, index) =>
        makeItem(
          toolCallContent({ callId: `toolu_${seed}_${turn}_${index}`, name: 'get_weather', arguments: args }),
          turn,
        ),
      ),
    ],
    turn => [
      ...inputs.map((_, index) =>
        makeItem(
          toolResultContent({
            callId: `toolu_${seed}_${turn - 1}_${index}`,
            parts:
              index === 0
                ? [makePart(textContent(text))]
                : [makePart(textContent(text)), makePart(textContent('more'))],
            plain: index === 0,
            isError,
          }),
          turn,
        ),
      ),
      ...(then === null ? [] : [makeItem(messageContent(Role.USER, [then]), turn)]),
    ],
  ]);

/** Generates requests that a Messages body can express. */
export const messagesRequests: fc.Arbitrary<GenerateRequest> = fc
  .record({
    system: fc.option(fc.array(textPart, { minLength: 1, maxLength: 2 })),
    first: requested,
    rounds: fc.array(called, { maxLength: 2 }),
    last: requested,
    tools: fc.boolean(),
    choice: fc.option(fc.constantFrom(ToolChoiceMode.AUTO, ToolChoiceMode.REQUIRED, ToolChoiceMode.NAMED)),
    parallel: fc.option(fc.boolean()),
    thinking: fc.option(fc.constantFrom('budget', 'adaptive', 'disabled')),
    schema: fc.boolean(),
    topK: fc.option(fc.nat(100)),
    stop: fc.constantFrom([], ['END'], ['a', 'b', 'c', 'd', 'e']),
    tier: fc.constantFrom(ServiceTier.UNSPECIFIED, ServiceTier.FLEX, ServiceTier.PRIORITY),
    user: fc.option(anyText),
    topCache: fc.option(cache),
    stream: fc.boolean(),
  })
  .map(fields => {
    const turns = [fields.first, ...fields.rounds.flat(), fields.last];
    const items = turns.flatMap((turn, index) => turn(index + 1));
    if (fields.system !== null) items.unshift(makeItem(messageContent(Role.SYSTEM, fields.system), 0));
    const request = makeRequest({
      model: 'acme/large',
      endpoint: Endpoint.MESSAGES,
      delivery: fields.stream ? Delivery.STREAMED : Delivery.WHOLE,
      items,
      maxOutputTokens: 5000,
      stop: [...fields.stop],
      serviceTier: fields.tier,
    });
    if (fields.tools) {
      const value = {
        $typeName: 'tollgate.v1.FunctionTool' as const,
        name: 'get_weather',
        description: undefined,
        parametersJson: '{"properties":{"city":{"type":"string","x":null}}}',
        strict: undefined,
      };
      request.tools = [{ $typeName: 'tollgate.v1.Tool', tool: { case: 'function', value } }];
      if (fields.choice !== null) {
        const tools =
          fields.choice === ToolChoiceMode.NAMED
            ? [{ $typeName: 'tollgate.v1.ToolName' as const, name: 'get_weather', kind: ToolKind.FUNCTION }]
            : [];
        request.toolChoice = { $typeName: 'tollgate.v1.ToolChoice', mode: fields.choice, tools, restricted: false };
        if (fields.parallel !== null) request.parallelToolCalls = fields.parallel;
      }
    }
    const base = { $typeName: 'tollgate.v1.ReasoningConfig', effort: ReasoningEffort.UNSPECIFIED } as const;
    if (fields.thinking === 'budget')
      request.reasoning = { ...base, thinking: ThinkingMode.ENABLED, budgetTokens: 2048 };
    if (fields.thinking === 'adaptive') {
      request.reasoning = {
        ...base,
        effort: ReasoningEffort.HIGH,
        thinking: ThinkingMode.ADAPTIVE,
        display: 'omitted',
      };
    }
    if (fields.thinking === 'disabled') request.reasoning = { ...base, thinking: ThinkingMode.DISABLED };
    if (fields.schema) {
      const schemaJson = '{"type":"object","x":null}';
      request.outputFormat = {
        $typeName: 'tollgate.v1.OutputFormat',
        type: OutputFormatType.JSON_SCHEMA,
        name: 'response',
        schemaJson,
      };
    }
    if (fields.topK !== null) request.sampling = makeSampling({ topK: fields.topK, temperature: 0.5 });
    if (fields.user !== null) request.user = fields.user;
    if (fields.topCache !== null) request.cache = fields.topCache;
    return request;
  });
