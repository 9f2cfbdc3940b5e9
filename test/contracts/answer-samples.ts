/** Sample answers of each protocol, streamed and whole, and the objects in them to which an upstream may add unknown members. */
import fc from 'fast-check';
import { type JsonTree, readTree, treeAt, type TreePath, writeTree } from './json-tree.ts';
import type { TextProtocol } from '../upstreams/text-protocol.ts';
import { unknownJson, withMember } from './unknown-arbitraries.ts';

/** An object that may get an unknown member: the number of its frame (0 for an answer that is not streamed) and its path in the frame. */
interface AnswerPlace {
  readonly frame: number;
  readonly path: TreePath;
}

/** An answer as a list of frames; an answer that is not streamed is one frame. */
export interface AnswerSample {
  readonly frames: readonly object[];
  /** Objects that may get members. */
  readonly places: readonly AnswerPlace[];
  /** Frames of unknown types, by the number of the frame that they follow. */
  readonly extra?: readonly { readonly after: number; readonly frame: object }[];
}

/** The samples of one protocol. */
export interface AnswerSamples {
  readonly stream: AnswerSample;
  readonly whole: AnswerSample;
}

const at = (frame: number, ...paths: TreePath[]): AnswerPlace[] => paths.map(path => ({ frame, path }));

const chatHead = { id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm' };
const chunk = (delta: object, rest: object = {}): object => ({
  ...chatHead,
  choices: [{ index: 0, delta, finish_reason: null, ...rest }],
});
const chatPlaces: TreePath[] = [[], ['choices', 0], ['choices', 0, 'delta']];
const call = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } };
const chatUsage = {
  prompt_tokens: 5,
  completion_tokens: 7,
  total_tokens: 12,
  completion_tokens_details: { reasoning_tokens: 1 },
};
const cited = {
  type: 'url_citation',
  url_citation: { url: 'https://a.example', title: 'A', start_index: 0, end_index: 1 },
};

const chat: AnswerSamples = {
  stream: {
    frames: [
      chunk({ role: 'assistant', content: '' }),
      chunk({ content: 'Hi' }),
      chunk({ annotations: [cited] }),
      chunk({ tool_calls: [{ index: 0, id: 'c1', type: 'function', function: { name: 'f', arguments: '' } }] }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: '{"a":1}' } }] }),
      chunk({}, { finish_reason: 'tool_calls' }),
      { ...chatHead, choices: [], usage: chatUsage },
    ],
    places: [
      ...at(0, ...chatPlaces),
      ...at(1, ...chatPlaces),
      ...at(2, ['choices', 0, 'delta', 'annotations', 0], ['choices', 0, 'delta', 'annotations', 0, 'url_citation']),
      ...at(
        3,
        ...chatPlaces,
        ['choices', 0, 'delta', 'tool_calls', 0],
        ['choices', 0, 'delta', 'tool_calls', 0, 'function'],
      ),
      ...at(4, ['choices', 0, 'delta', 'tool_calls', 0], ['choices', 0, 'delta', 'tool_calls', 0, 'function']),
      ...at(5, [], ['choices', 0]),
      ...at(6, [], ['usage'], ['usage', 'completion_tokens_details']),
    ],
  },
  whole: {
    frames: [
      {
        id: 'x',
        object: 'chat.completion',
        created: 1,
        model: 'm',
        choices: [
          {
            index: 0,
            finish_reason: 'tool_calls',
            message: { role: 'assistant', content: 'Hi', annotations: [cited], tool_calls: [call] },
          },
        ],
        usage: chatUsage,
      },
    ],
    places: at(
      0,
      [],
      ['choices', 0],
      ['choices', 0, 'message'],
      ['choices', 0, 'message', 'annotations', 0],
      ['choices', 0, 'message', 'tool_calls', 0],
      ['choices', 0, 'message', 'tool_calls', 0, 'function'],
      ['usage'],
      ['usage', 'completion_tokens_details'],
    ),
  },
};

const message = { id: 'msg_x', type: 'message', role: 'assistant', model: 'm', stop_sequence: null };
const blocks = [
  { type: 'thinking', thinking: 'Hm.', signature: 'c2lnbmVk' },
  { type: 'text', text: 'Hi' },
  { type: 'x_block', data: [1, { deep: true }] },
  { type: 'tool_use', id: 't1', name: 'f', input: { a: 1 } },
];
const start = (index: number, block: object): object => ({ type: 'content_block_start', index, content_block: block });
const delta = (index: number, member: object): object => ({ type: 'content_block_delta', index, delta: member });
const stop = (index: number): object => ({ type: 'content_block_stop', index });

const messages: AnswerSamples = {
  stream: {
    frames: [
      {
        type: 'message_start',
        message: { ...message, content: [], stop_reason: null, usage: { input_tokens: 5, output_tokens: 1 } },
      },
      start(0, { type: 'thinking', thinking: '', signature: '' }),
      delta(0, { type: 'thinking_delta', thinking: 'Hm.' }),
      delta(0, { type: 'signature_delta', signature: 'c2lnbmVk' }),
      stop(0),
      start(1, { type: 'text', text: '' }),
      delta(1, { type: 'text_delta', text: 'Hi' }),
      stop(1),
      start(2, { type: 'x_block', data: [1] }),
      stop(2),
      start(3, { type: 'tool_use', id: 't1', name: 'f', input: {} }),
      delta(3, { type: 'input_json_delta', partial_json: '{"a":1}' }),
      stop(3),
      {
        type: 'message_delta',
        delta: { stop_reason: 'tool_use', stop_sequence: null },
        usage: { output_tokens: 7 },
      },
      { type: 'message_stop' },
    ],
    places: [
      ...at(0, [], ['message']),
      ...[1, 5, 10].flatMap(frame => at(frame, [], ['content_block'])),
      ...at(8, ['content_block']),
      ...[2, 3, 6, 11].flatMap(frame => at(frame, [], ['delta'])),
      ...[4, 7, 12, 14].flatMap(frame => at(frame, [])),
      ...at(13, [], ['delta'], ['usage']),
    ],
    extra: [
      { after: 6, frame: delta(1, { type: 'x_delta' }) },
      { after: 8, frame: delta(2, { type: 'x_delta' }) },
      { after: 6, frame: { type: 'x_event' } },
    ],
  },
  whole: {
    frames: [{ ...message, content: blocks, stop_reason: 'tool_use', usage: { input_tokens: 5, output_tokens: 7 } }],
    places: at(0, [], ['usage'], ...blocks.map((_, index): TreePath => ['content', index])),
  },
};

const resource = { id: 'resp_x', object: 'response', created_at: 1, model: 'm' };
const reasoning = { id: 'rs_1', type: 'reasoning', summary: [{ type: 'summary_text', text: 'Hm.' }] };
const citation = { type: 'url_citation', url: 'https://a.example', title: 'A', start_index: 0, end_index: 1 };
const part = { type: 'output_text', text: 'Hi', annotations: [citation], logprobs: [] };
const unknownPart = { type: 'x_part', data: [1] };
const said = { id: 'msg_1', type: 'message', role: 'assistant', status: 'completed', content: [part, unknownPart] };
const called = {
  id: 'fc_1',
  type: 'function_call',
  status: 'completed',
  call_id: 'c1',
  name: 'f',
  arguments: '{"a":1}',
};
const unknownItem = { id: 'x_1', type: 'x_item', data: { deep: [1] } };
const responseUsage = {
  input_tokens: 5,
  output_tokens: 7,
  total_tokens: 12,
  output_tokens_details: { reasoning_tokens: 1 },
};
const finished = {
  ...resource,
  status: 'completed',
  output: [reasoning, said, unknownItem, called],
  usage: responseUsage,
};
const numbered = (frames: readonly object[]): object[] =>
  frames.map((frame, index) => ({ ...frame, sequence_number: index }));
const inItem = (type: string, output: number, id: string, members: object): object => ({
  type: `response.${type}`,
  item_id: id,
  output_index: output,
  ...members,
});

const responses: AnswerSamples = {
  stream: {
    frames: numbered([
      { type: 'response.created', response: { ...resource, status: 'in_progress', output: [] } },
      { type: 'response.output_item.added', output_index: 0, item: { ...reasoning, summary: [] } },
      inItem('reasoning_summary_part.added', 0, 'rs_1', { summary_index: 0, part: { type: 'summary_text', text: '' } }),
      inItem('reasoning_summary_text.delta', 0, 'rs_1', { summary_index: 0, delta: 'Hm.' }),
      inItem('reasoning_summary_part.done', 0, 'rs_1', { summary_index: 0, part: reasoning.summary[0] }),
      { type: 'response.output_item.done', output_index: 0, item: reasoning },
      { type: 'response.output_item.added', output_index: 1, item: { ...said, status: 'in_progress', content: [] } },
      inItem('content_part.added', 1, 'msg_1', { content_index: 0, part: { ...part, text: '', annotations: [] } }),
      inItem('output_text.delta', 1, 'msg_1', { content_index: 0, delta: 'Hi', logprobs: [] }),
      inItem('output_text.annotation.added', 1, 'msg_1', {
        content_index: 0,
        annotation_index: 0,
        annotation: citation,
      }),
      inItem('output_text.done', 1, 'msg_1', { content_index: 0, text: 'Hi', logprobs: [] }),
      inItem('content_part.done', 1, 'msg_1', { content_index: 0, part }),
      inItem('content_part.added', 1, 'msg_1', { content_index: 1, part: { type: 'x_part' } }),
      inItem('content_part.done', 1, 'msg_1', { content_index: 1, part: unknownPart }),
      { type: 'response.output_item.done', output_index: 1, item: said },
      { type: 'response.output_item.added', output_index: 2, item: unknownItem },
      { type: 'response.output_item.done', output_index: 2, item: unknownItem },
      {
        type: 'response.output_item.added',
        output_index: 3,
        item: { ...called, arguments: '', status: 'in_progress' },
      },
      inItem('function_call_arguments.delta', 3, 'fc_1', { delta: '{"a":1}' }),
      inItem('function_call_arguments.done', 3, 'fc_1', { arguments: '{"a":1}' }),
      { type: 'response.output_item.done', output_index: 3, item: called },
      { type: 'response.completed', response: finished },
    ]),
    places: [
      ...at(0, [], ['response']),
      ...[1, 6, 17].flatMap(frame => at(frame, [], ['item'])),
      ...[5, 14, 16, 20].flatMap(frame => at(frame, [], ['item'])),
      ...[2, 7, 11, 13].flatMap(frame => at(frame, [], ['part'])),
      ...[3, 4, 8, 10, 18, 19].flatMap(frame => at(frame, [])),
      ...at(9, [], ['annotation']),
      ...at(21, [], ['response'], ['response', 'usage'], ['response', 'usage', 'output_tokens_details']),
    ],
    extra: [
      { after: 8, frame: inItem('x_text.delta', 1, 'msg_1', { content_index: 0, delta: 'x' }) },
      { after: 12, frame: { type: 'x.event' } },
    ],
  },
  whole: {
    frames: [finished],
    places: at(
      0,
      [],
      ['usage'],
      ['usage', 'output_tokens_details'],
      ['output', 0],
      ['output', 1],
      ['output', 1, 'content', 0],
      ['output', 1, 'content', 0, 'annotations', 0],
      ['output', 1, 'content', 1],
      ['output', 2],
      ['output', 3],
    ),
  },
};

const geminiHead = { modelVersion: 'm', responseId: 'x' };
const contents = (...parts: object[]): object => ({ content: { role: 'model', parts }, index: 0 });
const geminiChunk = (candidate: object, rest: object = {}): object => ({
  candidates: [candidate],
  ...rest,
  ...geminiHead,
});
const thought = { text: 'Hm.', thought: true };
const functionCall = { functionCall: { id: 'c1', name: 'f', args: { a: 1 } } };
const unknownGeminiPart = { x_part: { data: [1] } };
const geminiUsage = { promptTokenCount: 5, candidatesTokenCount: 6, thoughtsTokenCount: 1, totalTokenCount: 12 };
const inCandidate = (...steps: TreePath[number][]): TreePath => ['candidates', 0, ...steps];
const geminiPlaces: TreePath[] = [[], inCandidate(), inCandidate('content'), inCandidate('content', 'parts', 0)];

const gemini: AnswerSamples = {
  stream: {
    frames: [
      geminiChunk(contents(thought)),
      geminiChunk(contents({ text: 'Hi' })),
      geminiChunk(contents({ text: ' there' })),
      geminiChunk(contents(unknownGeminiPart)),
      geminiChunk(contents(functionCall)),
      geminiChunk({ ...contents(), finishReason: 'STOP' }, { usageMetadata: geminiUsage }),
    ],
    places: [
      ...[0, 1, 2, 3, 4].flatMap(frame => at(frame, ...geminiPlaces)),
      ...at(4, inCandidate('content', 'parts', 0, 'functionCall')),
      ...at(5, [], inCandidate(), inCandidate('content'), ['usageMetadata']),
    ],
  },
  whole: {
    frames: [
      geminiChunk(
        {
          ...contents(thought, { text: 'Hi' }, { text: ' there' }, unknownGeminiPart, functionCall),
          finishReason: 'STOP',
        },
        { usageMetadata: geminiUsage },
      ),
    ],
    places: at(
      0,
      [],
      ['usageMetadata'],
      inCandidate(),
      inCandidate('content'),
      ...[0, 1, 2, 3, 4].map(part_ => inCandidate('content', 'parts', part_)),
      inCandidate('content', 'parts', 4, 'functionCall'),
    ),
  },
};

/** The samples, by the names of protocols in the configuration. */
export const answerSamples: Readonly<Record<TextProtocol, AnswerSamples>> = {
  gemini,
  chat,
  responses,
  messages,
};

/** An unknown member that was put into an answer. */
export interface Planted {
  readonly name: string;
  /** The `type` of its frame; '' if frames have none. */
  readonly type: string;
  /** The names of the members that lead to it, without array indexes. */
  readonly path: readonly string[];
  readonly value: JsonTree;
}

/** An answer with unknown members and frames. */
export interface StrangeAnswer {
  /** As JSON texts. */
  readonly frames: readonly string[];
  readonly planted: readonly Planted[];
}

/** Generates answers with one to four unknown members with different names, and with frames of unknown types. */
export function strangeAnswer({ frames, places, extra = [] }: AnswerSample): fc.Arbitrary<StrangeAnswer> {
  const member = fc.tuple(
    fc.constantFrom(...places),
    unknownJson.filter(text => text !== 'null'),
  );
  const added = extra.length === 0 ? fc.constant([]) : fc.subarray([...extra]);
  return fc.tuple(fc.array(member, { minLength: 1, maxLength: 4 }), added).map(([members, events]) => {
    const trees = frames.map(frame => readTree(JSON.stringify(frame)));
    const planted: Planted[] = [];
    for (const [number, [place, json]] of members.entries()) {
      const tree = trees[place.frame];
      if (tree === undefined) throw new Error(`no frame ${place.frame}`);
      const name = `x_new_${number}`;
      trees[place.frame] = withMember(tree, place.path, [name, readTree(json)]);
      planted.push(plantedAt(tree, place.path, name, readTree(json)));
    }
    const texts = trees.map(writeTree);
    for (const [number, { after, frame }] of events.toSorted((a, b) => b.after - a.after).entries()) {
      const tree = withMember(readTree(JSON.stringify(frame)), [], [`x_event_${number}`, readTree('[1]')]);
      texts.splice(after + 1, 0, writeTree(tree));
      planted.push(plantedAt(tree, [], `x_event_${number}`, readTree('[1]')));
    }
    return { frames: texts, planted };
  });
}

function plantedAt(frame: JsonTree, path: TreePath, name: string, value: JsonTree): Planted {
  const names = path.filter(step => typeof step === 'string');
  return { name, type: typeIn(frame), path: names, value };
}

/** Returns the type of a frame; '' if it has none. */
export function typeIn(frame: JsonTree): string {
  const type = treeAt(frame, ['type']);
  return type?.kind === 'leaf' ? (JSON.parse(type.text) as string) : '';
}
