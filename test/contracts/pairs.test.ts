/**
 * For every pair of protocols, content that both can express is kept, in requests and in answers. The generated requests and answers have only what all protocols can express; what one of them lacks is tested by the tables of `test/translation`. Reasoning effort is not generated: the matrix of `test/clients` and the tables cover it.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { ClientCodec, JsonObject, UpstreamCodec } from '../../src/codecs/codec.ts';
import {
  imageContent,
  makeItem,
  mediaSource,
  messageContent,
  makePart,
  reasoningContent,
  reasoningTextContent,
  makeRequest,
  makeSampling,
  textContent,
  toolCallContent,
  toolResultContent,
} from '../../src/codecs/content.ts';
import { geminiCodec } from '../../src/codecs/gemini/index.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import { responsesCodec } from '../../src/codecs/responses/index.ts';
import { type Item, type Part, Role, ToolKind } from '../../src/gen/tollgate/v1/content_pb.ts';
import { DeltaKind, FinishReason, type GenerationEvent } from '../../src/gen/tollgate/v1/event_pb.ts';
import {
  type GenerateRequest,
  type OutputFormat,
  OutputFormatType,
  type Tool,
  ToolChoiceMode,
  type ToolName,
} from '../../src/gen/tollgate/v1/request_pb.ts';
import {
  completed,
  delta,
  finished,
  itemClosed,
  itemOpened,
  partClosed,
  partOpened,
  started,
} from '../../src/generation/events.ts';
import { foldEvents } from '../../src/generation/fold.ts';
import { toChatRequest } from '../clients/gemini-request.ts';
import { parseChunks, renderFrames, wantsEverything } from './codec-suite.ts';

const anyText = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }).filter(text => text.trim() !== '');
const name = fc.constantFrom('get_weather', 'now', 'search_2');
const args = fc.dictionary(fc.constantFrom('city', 'n'), fc.oneof(anyText, fc.integer()), { maxKeys: 2 });
const userPart = fc.oneof(
  anyText.map(text => makePart(textContent(text))),
  fc.constant(makePart(imageContent(mediaSource({ case: 'base64', value: 'iVBORw0KGgoAAAAN' }, 'image/png')))),
);
const user = fc
  .array(userPart, { minLength: 1, maxLength: 3 })
  .map(parts => [makeItem(messageContent(Role.USER, parts), 0)]);

/** Generates a turn of the model with text and tool calls, and the results of the calls. */
const exchange = fc
  .record({ said: fc.option(anyText), calls: fc.array(fc.tuple(name, args, anyText), { minLength: 1, maxLength: 3 }) })
  .map(({ said, calls }) => (turn: number): Item[] => {
    const makeId = (index: number): string => `call_${turn}_${index}`;
    return [
      ...(said === null ? [] : [makeItem(messageContent(Role.ASSISTANT, [makePart(textContent(said))]), turn)]),
      ...calls.map(([tool, input], index) =>
        makeItem(toolCallContent({ callId: makeId(index), name: tool, arguments: JSON.stringify(input) }), turn),
      ),
      ...calls.map(([, , text], index) =>
        makeItem(
          toolResultContent({ callId: makeId(index), parts: [makePart(textContent(text))], plain: true }),
          turn + 1,
        ),
      ),
    ];
  });
const tool: fc.Arbitrary<Tool> = fc.record({ name, description: anyText }).map(fields => ({
  $typeName: 'tollgate.v1.Tool',
  tool: {
    case: 'function',
    value: {
      $typeName: 'tollgate.v1.FunctionTool',
      ...fields,
      parametersJson: '{"type":"object","properties":{"city":{"type":"string","enum":["Oslo"]}},"required":["city"]}',
    },
  },
}));

/** Returns the names of tools in the form of a tool choice. */
function namesIn(tools: readonly Tool[]): ToolName[] {
  return tools.flatMap(({ tool: each }) =>
    each.case === 'function'
      ? [{ $typeName: 'tollgate.v1.ToolName' as const, name: each.value.name, kind: ToolKind.FUNCTION }]
      : [],
  );
}

const citySchema = '{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}';
const cityFormat: OutputFormat = {
  $typeName: 'tollgate.v1.OutputFormat',
  type: OutputFormatType.JSON_SCHEMA,
  name: 'response',
  schemaJson: citySchema,
};

const requests: fc.Arbitrary<GenerateRequest> = fc
  .record({
    system: fc.option(anyText),
    first: user,
    rounds: fc.array(fc.tuple(exchange, user), { maxLength: 2 }),
    tools: fc.uniqueArray(tool, {
      minLength: 1,
      maxLength: 2,
      selector: each => each.tool.value?.$typeName + JSON.stringify(each),
    }),
    choice: fc.constantFrom(ToolChoiceMode.AUTO, ToolChoiceMode.NONE, ToolChoiceMode.REQUIRED, ToolChoiceMode.NAMED),
    schema: fc.boolean(),
    temperature: fc.constantFrom(0, 0.5, 1),
    stop: fc.uniqueArray(anyText, { maxLength: 4 }),
    limit: fc.integer({ min: 16, max: 4_000 }),
  })
  .map(({ system, first, rounds, tools, choice, schema, temperature, stop, limit }) =>
    makeRequest({
      model: 'm',
      items: [
        ...(system === null ? [] : [makeItem(messageContent(Role.SYSTEM, [makePart(textContent(system))]), 0)]),
        ...first,
        ...rounds.flatMap(([calls, next], index) => [...calls(index * 2 + 1), ...next]),
      ],
      tools,
      toolChoice: {
        $typeName: 'tollgate.v1.ToolChoice',
        mode: choice,
        tools: choice === ToolChoiceMode.NAMED ? namesIn(tools).slice(0, 1) : [],
        restricted: false,
      },
      sampling: makeSampling({ temperature }),
      stop,
      maxOutputTokens: limit,
      ...(schema ? { outputFormat: cityFormat } : {}),
    }),
  );

/**
 * Returns the content of a request, independent of how its protocol groups or names it: ids of calls are replaced by
 * their positions.
 */
function toGist(request: GenerateRequest): unknown {
  const places = new Map<string, number>();
  const said = request.items.flatMap(({ content }): unknown[] => {
    if (content.case === 'message') return content.value.parts.map(part => [content.value.role, partGist(part)]);
    if (content.case === 'toolCall') {
      places.set(content.value.callId, places.size);
      return [['call', places.get(content.value.callId), content.value.name, JSON.parse(content.value.arguments)]];
    }
    if (content.case !== 'toolResult') return [content.case];
    return [['result', places.get(content.value.callId), ...content.value.parts.map(partGist)]];
  });
  return {
    said,
    tools: request.tools.map(({ tool: each }) => {
      if (each.case !== 'function') return each.case;
      const { name: called, description, parametersJson } = each.value;
      return [called, description, JSON.parse(parametersJson)];
    }),
    choice: [
      request.toolChoice?.mode ?? ToolChoiceMode.AUTO,
      ...(request.toolChoice?.tools ?? []).map(each => each.name),
    ],
    temperature: request.sampling?.temperature,
    stop: request.stop,
    limit: request.maxOutputTokens,
    schema: request.outputFormat?.schemaJson ? (JSON.parse(request.outputFormat.schemaJson) as unknown) : undefined,
  };
}

function partGist({ content }: Part): unknown {
  if (content.case === 'text') return content.value.text;
  return content.case === 'image' ? content.value.source?.source.value : content.case;
}

function decoded(codec: ClientCodec, body: Record<string, unknown>): GenerateRequest {
  const raw = Buffer.from(JSON.stringify(body));
  return codec.decodeRequest({ body: JSON.parse(raw.toString()) as unknown, raw, headers: {} }).request;
}

/** How a test reads the request that an upstream got. */
const readers: Readonly<Record<string, readonly [UpstreamCodec, (body: JsonObject) => GenerateRequest]>> = {
  Chat: [chatCodec, body => decoded(chatCodec, body)],
  Messages: [messagesCodec, body => decoded(messagesCodec, body)],
  Responses: [responsesCodec, body => decoded(responsesCodec, body)],
  // Parsed by the Gemini server of `test/clients`, which refuses fields that Google's schema does not have.
  Gemini: [geminiCodec, body => decoded(chatCodec, toChatRequest(body, 'm', false))],
};
const clients: Readonly<Record<string, ClientCodec & UpstreamCodec>> = {
  Chat: chatCodec,
  Messages: messagesCodec,
  Responses: responsesCodec,
};

describe.each(Object.entries(clients))('requests of %s', (from, client) => {
  test.each(Object.entries(readers))('to an upstream of %s keep what both can express', (to, [upstream, read]) => {
    fc.assert(
      fc.property(requests, drawn => {
        // Responses has no stop sequences.
        const generated = { ...drawn, ...([from, to].includes('Responses') ? { stop: [] } : {}) };
        // `gemini-2.5-flash` does not accept a schema together with tools.
        if (to === 'Gemini') delete generated.outputFormat;
        // The body that the client writes is decoded as by the gateway.
        const { model, maxOutputTokens } = generated;
        const written = client.encodeRequest({ request: generated, model, maxOutputTokens, stream: true }).body;
        const request = decoded(client, written);
        const sent = upstream.encodeRequest({
          request,
          model: 'gemini-2.5-flash',
          maxOutputTokens: request.maxOutputTokens,
          stream: true,
        });
        expect(sent.dropped).toEqual([]);
        expect(toGist(read(sent.body))).toEqual(toGist(generated));
      }),
      { numRuns: 150 },
    );
  });
});

/** A generated answer. */
interface DrawnAnswer {
  readonly reasoningText: string | null;
  readonly text: string;
  readonly calls: readonly (readonly [name: string, args: object])[];
  readonly cut: boolean;
}
const answers: fc.Arbitrary<DrawnAnswer> = fc.record({
  reasoningText: fc.option(anyText),
  text: anyText,
  calls: fc.array(fc.tuple(name, args), { maxLength: 3 }),
  cut: fc.boolean(),
});

function toReason({ calls, cut }: DrawnAnswer): FinishReason {
  if (cut) return FinishReason.LENGTH;
  return calls.length > 0 ? FinishReason.TOOL_CALLS : FinishReason.STOP;
}

/** Returns the answer as events; the codec's renderer writes them as its upstream would send them. */
function toEvents(drawn: DrawnAnswer): GenerationEvent[] {
  let item = 0;
  const events = [started({})];
  if (drawn.reasoningText !== null) {
    events.push(
      itemOpened(0, item, makeItem(reasoningContent({}), 0)),
      partOpened(0, [item, 0], makePart(reasoningTextContent(''))),
      delta(0, [item, 0], { kind: DeltaKind.REASONING, text: drawn.reasoningText }),
      partClosed(0, [item, 0]),
      itemClosed(0, item),
    );
    item += 1;
  }
  const text = makeItem(messageContent(Role.ASSISTANT, []), 0);
  events.push(itemOpened(0, item, text), partOpened(0, [item, 0], makePart(textContent(''))));
  events.push(
    delta(0, [item, 0], { kind: DeltaKind.TEXT, text: drawn.text }),
    partClosed(0, [item, 0]),
    itemClosed(0, item),
  );
  for (const [index, [called, input]] of drawn.calls.entries()) {
    item += 1;
    events.push(itemOpened(0, item, makeItem(toolCallContent({ callId: `c${index}`, name: called }), 0)));
    events.push(delta(0, [item, 0], { kind: DeltaKind.ARGUMENTS, text: JSON.stringify(input) }), itemClosed(0, item));
  }
  const usage = {
    $typeName: 'tollgate.v1.Usage' as const,
    unpriced: [],
    inputTokens: 7,
    cacheReadTokens: 3,
    outputTokens: 9,
  };
  events.push(finished(0, toReason(drawn)), completed({ usage }));
  return events;
}

function geminiBytes({ reasoningText, text, calls, cut }: DrawnAnswer): Buffer {
  const parts = [
    ...(reasoningText === null ? [] : [{ text: reasoningText, thought: true }]),
    { text },
    ...calls.map(([called, input]) => ({ functionCall: { name: called, args: input } })),
  ];
  const candidates = [{ content: { role: 'model', parts }, finishReason: cut ? 'MAX_TOKENS' : 'STOP' }];
  const usageMetadata = { promptTokenCount: 10, cachedContentTokenCount: 3, candidatesTokenCount: 9 };
  return Buffer.from(`data: ${JSON.stringify({ candidates, usageMetadata, responseId: 'r' })}\n\n`);
}

const upstreamBytes: Readonly<Record<string, readonly [UpstreamCodec, (drawn: DrawnAnswer) => Buffer]>> = {
  Chat: [chatCodec, drawn => Buffer.from(renderFrames(chatCodec, toEvents(drawn), wantsEverything).join(''))],
  Messages: [
    messagesCodec,
    drawn => Buffer.from(renderFrames(messagesCodec, toEvents(drawn), wantsEverything).join('')),
  ],
  Responses: [
    responsesCodec,
    drawn => Buffer.from(renderFrames(responsesCodec, toEvents(drawn), wantsEverything).join('')),
  ],
  Gemini: [geminiCodec, geminiBytes],
};

/** Returns the text of reasoning or of its summary; '' for other parts. */
function readText(part: Part['content']): string {
  return part.case === 'reasoningText' || part.case === 'summaryText' ? part.value.text : '';
}

function answerGist(events: readonly GenerationEvent[]): unknown {
  const { choices, completed: end } = foldEvents(events);
  const items = (choices[0]?.items ?? []).flatMap(({ content }): unknown[] => {
    if (content.case === 'message') return content.value.parts.map(partGist);
    // For a call without arguments some protocols send nothing, others an empty object.
    return content.case === 'toolCall' ? [[content.value.name, JSON.parse(content.value.arguments || '{}')]] : [];
  });
  const reasoningTexts = (choices[0]?.items ?? []).flatMap(({ content }) =>
    content.case === 'reasoning' ? content.value.parts.map(({ content: part }) => readText(part)) : [],
  );
  return {
    reasoningText: reasoningTexts.join(''),
    items,
    finish: choices[0]?.finished?.reason,
    input: end?.usage?.inputTokens,
    cached: end?.usage?.cacheReadTokens,
    output: end?.usage?.outputTokens,
  };
}

describe.each(Object.entries(upstreamBytes))('answers of an upstream of %s', (_, [upstream, write]) => {
  test.each(Object.entries(clients))(
    'reach a client of %s with what both can express, streamed and whole',
    (__, client) => {
      fc.assert(
        fc.property(answers, drawn => {
          const parsed = parseChunks(upstream, 'acme', [write(drawn)]);
          const expected = {
            reasoningText: drawn.reasoningText ?? '',
            items: [drawn.text, ...drawn.calls.map(([called, input]) => [called, input])],
            finish: toReason(drawn),
            input: 7,
            cached: 3,
            output: 9,
          };
          const streamed = Buffer.from(renderFrames(client, parsed, wantsEverything).join(''));
          expect(answerGist(parseChunks(client, 'gateway', [streamed]))).toEqual(expected);
          const whole = client.renderWhole(parsed, wantsEverything);
          expect(answerGist(client.parseWhole(whole, 'gateway'))).toEqual(expected);
        }),
        { numRuns: 150 },
      );
    },
  );
});
