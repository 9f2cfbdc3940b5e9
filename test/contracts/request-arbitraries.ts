/** Generated requests that a codec could have decoded from a body. Tests encode them and decode them again. */
import fc from 'fast-check';
import { type Item, type Part, Role, ToolKind } from '../../src/gen/tollgate/v1/content_pb.ts';
import {
  Delivery,
  type Endpoint,
  type GenerateRequest,
  type OutputFormat,
  OutputFormatType,
  ReasoningEffort,
  type Sampling,
  ServiceTier,
  ThinkingMode,
  type Tool,
  type ToolChoice,
  ToolChoiceMode,
  type ToolName,
} from '../../src/gen/tollgate/v1/request_pb.ts';
import {
  imageContent,
  makeItem,
  mediaSource,
  messageContent,
  makeOpaque,
  makePart,
  reasoningContent,
  reasoningTextContent,
  refusalContent,
  makeRequest,
  makeSampling,
  summaryTextContent,
  textContent,
  toolCallContent,
  toolResultContent,
} from '../../src/codecs/content.ts';
import { anyText } from './answer-arbitraries.ts';
import { webUrls } from '../../src/lib/any-text.fixtures.ts';

const name = fc.constantFrom('get_weather', 'now', 'search-2', 'n'.repeat(64));
const schemaJson = fc
  .dictionary(
    fc.constantFrom('type', 'properties', 'x'),
    fc.oneof(anyText, fc.constant(null), fc.constant({ a: null })),
  )
  .map(value => JSON.stringify(value));
const base64 = fc.base64String({ minLength: 4, maxLength: 16 });
const maybe = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined });

/** Returns the fields that are not undefined. */
function defined<T extends object>(fields: T): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}

const textPart = anyText.map(text => makePart(textContent(text)));
const detail = fc.constantFrom('', 'low', 'high', 'auto', 'original');
const userPart: fc.Arbitrary<Part> = fc.oneof(
  textPart,
  fc
    .tuple(base64, detail)
    .map(([data, each]) => makePart(imageContent(mediaSource({ case: 'base64', value: data }, 'image/png'), each))),
  fc
    .tuple(webUrls, detail)
    .map(([url, each]) => makePart(imageContent(mediaSource({ case: 'url', value: url }), each))),
  base64.map(data =>
    makePart({
      case: 'audio',
      value: {
        $typeName: 'tollgate.v1.AudioPart',
        source: mediaSource({ case: 'base64', value: data }, 'audio/wav'),
        format: 'wav',
      },
    }),
  ),
  fc.tuple(base64, fc.constantFrom('application/pdf', ''), fc.constantFrom('a.pdf', '')).map(([data, type, filename]) =>
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
  ),
);

/**
 * Returns items that Chat writes as one or several messages. `message`: how many messages come before them. Items that one message of the model contains get `message + 1` as their
 * `turn`, as the decoder numbers them; all others get 0.
 */
type Turn = (message: number) => { readonly items: Item[]; readonly messages: number };

const speaker = fc.constantFrom('', 'ann');
const inputTurn: fc.Arbitrary<Turn> = fc.oneof(
  fc.tuple(fc.array(textPart, { minLength: 1, maxLength: 2 }), speaker).map(([parts, who]): Turn => {
    return () => ({ items: [makeItem(messageContent(Role.SYSTEM, parts, who), 0)], messages: 1 });
  }),
  fc.tuple(fc.array(userPart, { minLength: 1, maxLength: 3 }), speaker).map(([parts, who]): Turn => {
    return () => ({ items: [makeItem(messageContent(Role.USER, parts, who), 0)], messages: 1 });
  }),
);

type ReasoningBlock = Parameters<typeof reasoningContent>[0];

const plainReasoning = anyText.map((text): ReasoningBlock => ({ parts: [makePart(reasoningTextContent(text))] }));
const opaqueReasoning = fc
  .tuple(anyText, base64, fc.constantFrom('signed', 'encrypted', 'redacted'))
  .map(([text, data, form]): ReasoningBlock => {
    if (form === 'signed')
      return { parts: [makePart(reasoningTextContent(text))], opaque: [makeOpaque('anthropic.signature', data)] };
    if (form === 'encrypted')
      return { parts: [makePart(summaryTextContent(text))], opaque: [makeOpaque('openai.encrypted', data)] };
    return { parts: [], opaque: [makeOpaque('anthropic.redacted', data)], redacted: true };
  });
const reasoningBlocks: fc.Arbitrary<ReasoningBlock[]> = fc.oneof(
  fc.constant<ReasoningBlock[]>([]),
  plainReasoning.map(one => [one]),
  fc.array(opaqueReasoning, { minLength: 1, maxLength: 3 }),
);

const call = fc.record({
  id: fc.uuid(),
  name,
  arguments: fc.oneof(schemaJson, anyText, fc.constant('')),
  kind: fc.constantFrom(ToolKind.FUNCTION, ToolKind.CUSTOM),
  signature: fc.option(base64),
});
const result = fc.array(textPart, { minLength: 1, maxLength: 2 });

function callItem(
  {
    id,
    name: toolName,
    arguments: args,
    kind,
    signature,
  }: { id: string; name: string; arguments: string; kind: ToolKind; signature: string | null },
  turn: number,
): Item {
  const signed =
    signature === null || kind === ToolKind.CUSTOM
      ? {}
      : { signature: makeOpaque('gemini.thought_signature', signature) };
  return makeItem(toolCallContent({ callId: id, name: toolName, kind, arguments: args, ...signed }), turn);
}

const modelTurn: fc.Arbitrary<Turn> = fc
  .record({
    reasoningBlocks,
    text: maybe(anyText),
    refusal: maybe(anyText),
    who: speaker,
    calls: fc.array(fc.tuple(call, result), { maxLength: 2 }),
  })
  .map(
    ({ reasoningBlocks: blocks, text, refusal, who, calls }): Turn =>
      message => {
        const turn = message + 1;
        const parts = [
          ...(text === undefined ? [] : [makePart(textContent(text))]),
          ...(refusal === undefined ? [] : [makePart(refusalContent(refusal))]),
        ];
        const hasOtherItems = calls.length > 0 || blocks.length > 0;
        const messageItems =
          parts.length === 0 && hasOtherItems ? [] : [makeItem(messageContent(Role.ASSISTANT, parts, who), turn)];
        const items = [
          ...blocks.map(block => makeItem(reasoningContent(block), turn)),
          ...messageItems,
          ...calls.map(([each]) => callItem(each, turn)),
          ...calls.map(([{ id }, texts]) =>
            makeItem(toolResultContent({ callId: id, parts: texts, plain: texts.length === 1 }), 0),
          ),
        ];
        return { items, messages: 1 + calls.length };
      },
  );

function makeItems(turns: readonly Turn[]): Item[] {
  const items: Item[] = [];
  let message = 0;
  for (const turn of turns) {
    const made = turn(message);
    items.push(...made.items);
    message += made.messages;
  }
  return items;
}

const functionTool = fc.record({
  name,
  description: maybe(anyText),
  parametersJson: fc.oneof(schemaJson, fc.constant('')),
  strict: maybe(fc.boolean()),
});
const tool: fc.Arbitrary<Tool> = fc.oneof(
  functionTool.map(
    (fields): Tool => ({
      $typeName: 'tollgate.v1.Tool',
      tool: { case: 'function', value: { $typeName: 'tollgate.v1.FunctionTool', ...fields } },
    }),
  ),
  fc.record({ name, description: maybe(anyText), formatJson: fc.oneof(schemaJson, fc.constant('')) }).map(
    (fields): Tool => ({
      $typeName: 'tollgate.v1.Tool',
      tool: { case: 'custom', value: { $typeName: 'tollgate.v1.CustomTool', ...fields } },
    }),
  ),
);
const toolName = fc
  .record({ name, kind: fc.constantFrom(ToolKind.FUNCTION, ToolKind.CUSTOM) })
  .map((fields): ToolName => ({ $typeName: 'tollgate.v1.ToolName', ...fields }));
const toolChoice: fc.Arbitrary<ToolChoice> = fc
  .oneof(
    fc
      .constantFrom(ToolChoiceMode.AUTO, ToolChoiceMode.NONE, ToolChoiceMode.REQUIRED)
      .map(mode => ({ mode, tools: [] as ToolName[], restricted: false })),
    toolName.map(each => ({ mode: ToolChoiceMode.NAMED, tools: [each], restricted: false })),
    fc
      .tuple(
        fc.constantFrom(ToolChoiceMode.AUTO, ToolChoiceMode.REQUIRED),
        fc.array(toolName, { minLength: 1, maxLength: 2 }),
      )
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

// Adding 0 turns -0, which JSON does not keep, into 0.
const penalty = fc.double({ min: -2, max: 2, noNaN: true }).map(value => value + 0);
const sampling: fc.Arbitrary<Sampling | undefined> = fc
  .record({
    temperature: maybe(fc.double({ min: 0, max: 2, noNaN: true })),
    topP: maybe(fc.double({ min: 0, max: 1, noNaN: true })),
    frequencyPenalty: maybe(penalty),
    presencePenalty: maybe(penalty),
    seed: maybe(fc.maxSafeInteger().map(BigInt)),
    logprobs: maybe(fc.constant(true)),
    topLogprobs: fc.nat(20),
    logitBias: fc.dictionary(fc.constantFrom('1', '50256'), fc.integer({ min: -100, max: 100 })),
  })
  .map(({ topLogprobs, logitBias, ...rest }) => {
    const fields = defined({ ...rest, topLogprobs: rest.logprobs === true ? topLogprobs : undefined });
    const empty = Object.keys(fields).length === 0 && Object.keys(logitBias).length === 0;
    return empty ? undefined : makeSampling({ ...fields, logitBias });
  });

const efforts = [
  ReasoningEffort.NONE,
  ReasoningEffort.MINIMAL,
  ReasoningEffort.LOW,
  ReasoningEffort.MEDIUM,
  ReasoningEffort.HIGH,
  ReasoningEffort.XHIGH,
] as const;

/** Generates requests that a Chat body can express. */
export function requests(endpoint: Endpoint): fc.Arbitrary<GenerateRequest> {
  const optional = fc.record({
    sampling,
    outputFormat: maybe(format),
    verbosity: maybe(fc.constantFrom('low', 'medium', 'high')),
    maxOutputTokens: maybe(fc.integer({ min: 1, max: 2 ** 32 - 1 })),
    candidates: maybe(fc.integer({ min: 2, max: 128 })),
    promptCacheKey: maybe(fc.constant('key')),
    user: maybe(anyText),
    safetyIdentifier: maybe(anyText),
    reasoning: maybe(
      fc.constantFrom(...efforts).map(effort => ({
        $typeName: 'tollgate.v1.ReasoningConfig' as const,
        effort,
        thinking: ThinkingMode.UNSPECIFIED,
      })),
    ),
  });
  const tools = fc.oneof(
    fc.constant({ tools: [] as Tool[] }),
    fc.record({
      tools: fc.array(tool, { minLength: 1, maxLength: 3 }),
      toolChoice: maybe(toolChoice),
      parallelToolCalls: maybe(fc.boolean()),
    }),
  );
  return fc
    .record({
      turns: fc.array(fc.oneof(inputTurn, modelTurn), { minLength: 1, maxLength: 5 }),
      delivery: fc.constantFrom(Delivery.STREAMED, Delivery.WHOLE),
      stop: fc.array(anyText, { maxLength: 4 }),
      serviceTier: fc.constantFrom(ServiceTier.UNSPECIFIED, ServiceTier.FLEX, ServiceTier.PRIORITY),
      optional,
      tools,
    })
    .map(({ turns, optional: more, tools: toolFields, ...rest }) =>
      makeRequest({
        model: 'acme/large',
        endpoint,
        items: makeItems(turns),
        ...rest,
        ...defined(more),
        ...defined(toolFields),
      }),
    );
}
