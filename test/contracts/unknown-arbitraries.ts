/** Generated requests of each protocol with unknown members, blocks, items, roles and values. */
import fc from 'fast-check';
import { type JsonTree, readTree, treeAt, type TreePath, writeTree } from './json-tree.ts';
import type { TextProtocol } from '../upstreams/text-protocol.ts';
import { anyCharacters } from '../../src/lib/any-text.fixtures.ts';

/** A sample request that uses all of a protocol, with its path and what may be changed in it. */
export interface ProtocolSample {
  readonly path: string;
  readonly body: object;
  /** The paths of objects that may get members. */
  readonly objects: readonly TreePath[];
  /** The paths of free-form objects and of objects that are only hints: unknown members in them cause no warning. */
  readonly free: readonly TreePath[];
  /** The lists that may get entries, with the member that distinguishes their entries. */
  readonly lists: readonly { readonly path: TreePath; readonly key: string }[];
  /** The paths of enumerations that may get other values. */
  readonly words: readonly TreePath[];
}

const image = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const schema = { type: 'object', properties: { city: { type: 'string' } } };

/** The samples, by the names of protocols in the configuration. */
export const samples: Readonly<Record<TextProtocol, ProtocolSample>> = {
  chat: {
    path: '/v1/chat/completions',
    body: {
      messages: [
        { role: 'system', content: [{ type: 'text', text: 'Be brief.' }] },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Hi' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${image}`, detail: 'low' } },
          ],
        },
        {
          role: 'assistant',
          content: [{ type: 'text', text: 'So.' }],
          tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } }],
        },
        { role: 'tool', tool_call_id: 'c1', content: [{ type: 'text', text: 'ok' }] },
      ],
      tools: [{ type: 'function', function: { name: 'f', parameters: schema } }],
      tool_choice: 'auto',
      response_format: { type: 'json_schema', json_schema: { name: 'n', schema } },
      reasoning_effort: 'low',
      verbosity: 'low',
    },
    objects: [
      [],
      ['messages', 0],
      ['messages', 0, 'content', 0],
      ['messages', 1],
      ['messages', 1, 'content', 1],
      ['messages', 1, 'content', 1, 'image_url'],
      ['messages', 2],
      ['messages', 2, 'tool_calls', 0],
      ['messages', 2, 'tool_calls', 0, 'function'],
      ['messages', 3],
      ['messages', 3, 'content', 0],
      ['tools', 0],
      ['tools', 0, 'function'],
      ['response_format'],
      ['response_format', 'json_schema'],
    ],
    free: [
      ['tools', 0, 'function', 'parameters'],
      ['response_format', 'json_schema', 'schema'],
    ],
    lists: [
      { path: ['messages'], key: 'role' },
      { path: ['messages', 0, 'content'], key: 'type' },
      { path: ['messages', 1, 'content'], key: 'type' },
      { path: ['messages', 2, 'content'], key: 'type' },
      { path: ['messages', 3, 'content'], key: 'type' },
      { path: ['tools'], key: 'type' },
    ],
    words: [
      ['tool_choice'],
      ['reasoning_effort'],
      ['verbosity'],
      ['response_format', 'type'],
      ['messages', 1, 'content', 1, 'image_url', 'detail'],
    ],
  },
  responses: {
    path: '/v1/responses',
    body: {
      input: [
        { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'Be brief.' }] },
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'Hi' },
            { type: 'input_image', image_url: `data:image/png;base64,${image}`, detail: 'low' },
          ],
        },
        { type: 'message', role: 'assistant', phase: 'commentary', content: [{ type: 'output_text', text: 'So.' }] },
        { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Hm.' }], encrypted_content: 'gAAAA' },
        { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c1', output: [{ type: 'input_text', text: 'ok' }] },
      ],
      tools: [
        { type: 'function', name: 'f', parameters: schema },
        { type: 'namespace', name: 'ns', tools: [{ type: 'function', name: 'g', parameters: schema }] },
      ],
      tool_choice: 'auto',
      text: { format: { type: 'json_schema', name: 'n', schema }, verbosity: 'low' },
      reasoning: { effort: 'low', summary: 'auto' },
      truncation: 'disabled',
      include: ['reasoning.encrypted_content'],
    },
    objects: [
      [],
      ['input', 0],
      ['input', 0, 'content', 0],
      ['input', 1],
      ['input', 1, 'content', 1],
      ['input', 2],
      ['input', 2, 'content', 0],
      ['input', 3],
      ['input', 3, 'summary', 0],
      ['input', 4],
      ['input', 5],
      ['input', 5, 'output', 0],
      ['tools', 0],
      ['tools', 1],
      ['tools', 1, 'tools', 0],
      ['text'],
      ['text', 'format'],
      ['reasoning'],
    ],
    free: [
      ['tools', 0, 'parameters'],
      ['text', 'format', 'schema'],
    ],
    lists: [
      { path: ['input'], key: 'type' },
      { path: ['input'], key: 'role' },
      { path: ['input', 0, 'content'], key: 'type' },
      { path: ['input', 1, 'content'], key: 'type' },
      { path: ['input', 2, 'content'], key: 'type' },
      { path: ['input', 3, 'summary'], key: 'type' },
      { path: ['input', 5, 'output'], key: 'type' },
      { path: ['tools'], key: 'type' },
      { path: ['tools', 1, 'tools'], key: 'type' },
    ],
    words: [
      ['tool_choice'],
      ['text', 'verbosity'],
      ['text', 'format', 'type'],
      ['reasoning', 'effort'],
      ['reasoning', 'summary'],
      ['truncation'],
      ['input', 1, 'content', 1, 'detail'],
      ['input', 2, 'phase'],
    ],
  },
  messages: {
    path: '/v1/messages',
    body: {
      max_tokens: 5_000,
      system: [{ type: 'text', text: 'Be brief.' }],
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Hi', cache_control: { type: 'ephemeral', ttl: '5m' } },
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: image } },
          ],
        },
        { role: 'system', content: [{ type: 'text', text: 'Now.' }] },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'Hm.', signature: 'c2lnbmVk' },
            { type: 'text', text: 'So.' },
            { type: 'tool_use', id: 't1', name: 'f', input: {} },
          ],
        },
        {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: 't1', content: [{ type: 'text', text: 'ok' }] }],
        },
      ],
      tools: [{ name: 'f', input_schema: schema }],
      tool_choice: { type: 'auto' },
      thinking: { type: 'enabled', budget_tokens: 1_024, display: 'updates' },
      output_config: { effort: 'low', format: { type: 'json_schema', schema } },
      metadata: {},
    },
    objects: [
      [],
      ['system', 0],
      ['messages', 0],
      ['messages', 0, 'content', 0],
      ['messages', 0, 'content', 1],
      ['messages', 0, 'content', 1, 'source'],
      ['messages', 1],
      ['messages', 1, 'content', 0],
      ['messages', 2],
      ['messages', 2, 'content', 0],
      ['messages', 2, 'content', 2],
      ['messages', 3, 'content', 0],
      ['messages', 3, 'content', 0, 'content', 0],
      ['tools', 0],
      ['tool_choice'],
      ['thinking'],
      ['output_config'],
      ['output_config', 'format'],
      ['metadata'],
    ],
    free: [
      ['messages', 0, 'content', 0, 'cache_control'],
      ['messages', 2, 'content', 2, 'input'],
      ['tools', 0, 'input_schema'],
    ],
    lists: [
      { path: ['system'], key: 'type' },
      { path: ['messages'], key: 'role' },
      { path: ['messages', 0, 'content'], key: 'type' },
      { path: ['messages', 1, 'content'], key: 'type' },
      { path: ['messages', 2, 'content'], key: 'type' },
      { path: ['messages', 3, 'content', 0, 'content'], key: 'type' },
      { path: ['tools'], key: 'type' },
    ],
    words: [
      ['tool_choice', 'type'],
      ['thinking', 'type'],
      ['thinking', 'display'],
      ['output_config', 'effort'],
      ['messages', 0, 'content', 0, 'cache_control', 'type'],
      ['messages', 0, 'content', 0, 'cache_control', 'ttl'],
      ['messages', 0, 'content', 1, 'source', 'type'],
    ],
  },
  gemini: {
    path: '/v1beta/models/{model}:generateContent',
    body: {
      systemInstruction: { parts: [{ text: 'Be brief.' }] },
      contents: [
        { role: 'user', parts: [{ text: 'Hi' }, { inlineData: { mimeType: 'image/png', data: image } }] },
        { role: 'model', parts: [{ text: 'So.' }, { functionCall: { id: 'c1', name: 'f', args: {} } }] },
        { role: 'user', parts: [{ functionResponse: { id: 'c1', name: 'f', response: { output: 'ok' } } }] },
      ],
      tools: [{ functionDeclarations: [{ name: 'f', parametersJsonSchema: schema }] }],
      toolConfig: { functionCallingConfig: { mode: 'AUTO' } },
      generationConfig: {
        maxOutputTokens: 5_000,
        responseMimeType: 'application/json',
        responseJsonSchema: schema,
        thinkingConfig: { includeThoughts: true, thinkingLevel: 'low' },
      },
    },
    objects: [
      [],
      ['systemInstruction'],
      ['systemInstruction', 'parts', 0],
      ['contents', 0],
      ['contents', 0, 'parts', 0],
      ['contents', 0, 'parts', 1],
      ['contents', 0, 'parts', 1, 'inlineData'],
      ['contents', 1],
      ['contents', 1, 'parts', 0],
      ['contents', 1, 'parts', 1],
      ['contents', 1, 'parts', 1, 'functionCall'],
      ['contents', 2],
      ['contents', 2, 'parts', 0],
      ['contents', 2, 'parts', 0, 'functionResponse'],
      ['tools', 0],
      ['tools', 0, 'functionDeclarations', 0],
      ['toolConfig'],
      ['toolConfig', 'functionCallingConfig'],
      ['generationConfig'],
      ['generationConfig', 'thinkingConfig'],
    ],
    free: [
      ['contents', 1, 'parts', 1, 'functionCall', 'args'],
      ['contents', 2, 'parts', 0, 'functionResponse', 'response'],
      ['tools', 0, 'functionDeclarations', 0, 'parametersJsonSchema'],
      ['generationConfig', 'responseJsonSchema'],
    ],
    lists: [
      { path: ['contents'], key: 'role' },
      { path: ['contents', 0, 'parts'], key: 'x_part' },
      { path: ['contents', 1, 'parts'], key: 'x_part' },
      { path: ['tools'], key: 'x_tool' },
    ],
    words: [
      ['generationConfig', 'responseMimeType'],
      ['generationConfig', 'thinkingConfig', 'thinkingLevel'],
    ],
  },
};

const text = fc.oneof(anyCharacters({ maxLength: 6 }), fc.constantFrom('\ud83d', 'a\udc00b', '\uf8ff', '\\ud83d'));
const number = fc.oneof(
  fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }).map(String),
  fc
    .tuple(fc.integer(), fc.nat(), fc.integer({ min: -400, max: 400 }))
    .map(([whole, rest, e]) => `${whole}.${rest}e${e}`),
  fc.constantFrom('0.1', '1e3', '9007199254740993', '-0.30000000000000000001'),
);
const name = fc.oneof(
  fc.nat({ max: 30 }).map(String),
  fc.string({ unit: 'grapheme', maxLength: 5 }),
  fc.constant('__proto__'),
);

/** Any JSON, as text. */
const { json } = fc.letrec<{ json: string }>(tie => ({
  json: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    text.map(value => JSON.stringify(value)),
    number,
    fc.constantFrom('true', 'false', 'null'),
    fc.array(tie('json'), { maxLength: 3 }).map(values => `[${values.join(',')}]`),
    fc
      .uniqueArray(fc.tuple(name, tie('json')), { selector: ([key]) => key, maxLength: 4 })
      .map(members => `{${members.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(',')}}`),
  ),
}));

/** Any JSON, as text. */
export const unknownJson = json;

const newName = fc.nat({ max: 99 }).map(number_ => `x_new_${number_}`);

/** A change of a request: a value and its path. */
type Change =
  | { readonly kind: 'member'; readonly path: TreePath; readonly name: string; readonly json: string }
  | {
      readonly kind: 'entry';
      readonly path: TreePath;
      readonly key: string;
      readonly name: string;
      readonly json: string;
    }
  | { readonly kind: 'word'; readonly path: TreePath; readonly name: string };

/**
 * What may be changed: everything, or only what the interface reads (where null counts as absent).
 */
export type Extent = 'everything' | 'interface';

function arbitraryChange({ objects, free, lists, words }: ProtocolSample, extent: Extent): fc.Arbitrary<Change> {
  const isAll = extent === 'everything';
  const value = isAll ? json : json.filter(text_ => text_ !== 'null');
  return fc.oneof(
    fc
      .tuple(fc.constantFrom(...objects, ...(isAll ? free : [])), newName, value)
      .map(([path, added, said]): Change => ({ kind: 'member', path, name: added, json: said })),
    fc
      .tuple(fc.constantFrom(...lists), newName, json)
      .map(([{ path, key }, added, value]): Change => ({ kind: 'entry', path, key, name: added, json: value })),
    fc.tuple(fc.constantFrom(...words), newName).map(([path, added]): Change => ({ kind: 'word', path, name: added })),
  );
}

/** Generates requests with unknown members, entries and values, without a model. */
export function unknownRequest(sample: ProtocolSample, extent: Extent): fc.Arbitrary<JsonTree> {
  return fc.array(arbitraryChange(sample, extent), { minLength: 1, maxLength: 4 }).map(changes => {
    // Entries are added last and at the end of their lists, so that no other path changes.
    const order = { word: 0, member: 1, entry: 2 };
    let tree = readTree(JSON.stringify(sample.body));
    for (const change of changes.toSorted((a, b) => order[a.kind] - order[b.kind])) tree = changed(tree, change);
    return tree;
  });
}

function changed(tree: JsonTree, change: Change): JsonTree {
  const found = treeAt(tree, change.path);
  if (change.kind === 'word') return found === undefined ? tree : replaced(tree, change.path, leaf(change.name));
  if (change.kind === 'member') {
    return withMember(tree, change.path, [change.name, readTree(change.json)]);
  }
  if (found?.kind !== 'array') return tree;
  const members = [[change.key, leaf(change.name)] as const, ['x_json', readTree(change.json)] as const];
  return replaced(tree, change.path, { kind: 'array', items: [...found.items, { kind: 'object', members }] });
}

/**
 * Returns the tree with one more member in the object at a path; unchanged if there is no such object, or if it already has
 * the member.
 */
export function withMember(tree: JsonTree, path: TreePath, member: readonly [name: string, value: JsonTree]): JsonTree {
  const found = treeAt(tree, path);
  if (found?.kind !== 'object' || found.members.some(([known]) => known === member[0])) return tree;
  return replaced(tree, path, { kind: 'object', members: [...found.members, member] });
}

function leaf(value: string): JsonTree {
  return { kind: 'leaf', text: JSON.stringify(value) };
}

function replaced(tree: JsonTree, path: TreePath, value: JsonTree): JsonTree {
  const [step, ...rest] = path;
  if (step === undefined) return value;
  if (tree.kind === 'array') {
    return { kind: 'array', items: tree.items.map((item, at) => (at === step ? replaced(item, rest, value) : item)) };
  }
  if (tree.kind !== 'object') return tree;
  const members = tree.members.map(([known, member]): readonly [string, JsonTree] => [
    known,
    known === step ? replaced(member, rest, value) : member,
  ]);
  return { kind: 'object', members };
}

/** Returns the path that a request is sent to: Gemini's has the model. */
export function pathFor({ path }: ProtocolSample, model: string): string {
  return path.replace('{model}', model);
}

/** Returns the body that a client sends, with the model. */
export function withModel(tree: JsonTree, model: string): string {
  const members = tree.kind === 'object' ? tree.members : [];
  return writeTree({ kind: 'object', members: [['model', leaf(model)], ...members] });
}
