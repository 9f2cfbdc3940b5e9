import type { Json, JsonObject } from '../../src/codecs/codec.ts';
import { listIn, objectIn, objectsIn, textIn } from '../../src/codecs/json.ts';
import type { PlayedProtocol } from './exchange.ts';

/** Puts streams together as an official client does, so that they can be compared with whole answers. It shares no code with the gateway's parsers. */

/** Returns the whole answer of a body, streamed or not; undefined if it is none: an error, or cut. */
export function assemble(protocol: PlayedProtocol, body: string): JsonObject | undefined {
  const start = body.trimStart();
  if (start.startsWith('{') || start.startsWith('[')) {
    const whole = parse(start);
    if (Array.isArray(whole)) return joinGemini(objectsIn(whole));
    return objectIn(whole) === undefined || objectIn(whole)?.['error'] != null ? undefined : objectIn(whole);
  }
  const events = body
    .split(/\r?\n/)
    .filter(line => line.startsWith('data:'))
    .map(line => objectIn(parse(line.slice(5))))
    .filter(event => event !== undefined);
  const isFailed = /^(?:error:|event: ?error)/m.test(body) || events.some(event => event['error'] != null);
  if (isFailed || events.length === 0) return undefined;
  switch (protocol) {
    case 'responses':
      return objectIn(events.findLast(({ response }) => objectIn(response)?.['output'] !== undefined)?.['response']);
    case 'messages':
      return joinMessages(events);
    case 'gemini':
      return joinGemini(events);
    default:
      return joinChunks(events);
  }
}

function parse(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** Adds a member of a delta: texts are joined, lists by the `index` of their entries, and the last of other values counts. */
function addMember(whole: JsonObject, name: string, value: Json): void {
  const before = whole[name];
  if (typeof value === 'string' && typeof before === 'string' && !/^(id|type|role|name|format)$/.test(name)) {
    whole[name] = before + value;
  } else if (Array.isArray(value)) {
    const list = Array.isArray(before) ? before : [];
    for (const entry of objectsIn(value)) addEntry(list, entry);
    if (objectsIn(value).length > 0) whole[name] = list;
  } else if (objectIn(value) !== undefined && objectIn(before) !== undefined) {
    for (const [inner, each] of Object.entries(value as JsonObject)) addMember(before as JsonObject, inner, each);
  } else if (value !== null && value !== '') whole[name] = value;
}

function addEntry(list: Json[], entry: JsonObject): void {
  const { index } = entry;
  const known = typeof index === 'number' ? objectsIn(list).find(each => each['index'] === index) : undefined;
  const isOther = textIn(entry['id']) !== '' && known?.['id'] !== undefined && entry['id'] !== known['id'];
  if (known === undefined || isOther || entry['type'] === 'image_url') list.push(structuredClone(entry));
  else for (const [name, value] of Object.entries(entry)) addMember(known, name, value);
}

function joinChunks(chunks: readonly JsonObject[]): JsonObject {
  const choices: JsonObject[] = [];
  let usage: Json | undefined;
  for (const chunk of chunks) {
    usage = chunk['usage'] ?? objectIn(chunk['x_groq'])?.['usage'] ?? usage;
    for (const [position, value] of objectsIn(chunk['choices']).entries()) {
      const index = typeof value['index'] === 'number' ? value['index'] : position;
      choices[index] ??= { message: {}, text: '' };
      const choice = choices[index];
      const delta = objectIn(value['delta']) ?? objectIn(value['message']) ?? {};
      const message = objectIn(choice['message']) ?? {};
      const { content, ...members } = delta;
      if (content !== undefined) message['content'] = joinContent(message['content'], content);
      for (const [name, each] of Object.entries(members)) addMember(message, name, each);
      choice['text'] = textIn(choice['text']) + textIn(value['text']);
      if (value['finish_reason'] != null && value['finish_reason'] !== '')
        choice['finish_reason'] = value['finish_reason'];
    }
  }
  return { choices, ...(usage === undefined ? {} : { usage }) };
}

/** Joins contents: texts, or, if one of them is a list of parts, all as parts. */
function joinContent(before: Json | undefined, added: Json): Json {
  if (!Array.isArray(before) && !Array.isArray(added)) return textIn(before) + textIn(added);
  const toParts = (value: Json | undefined): Json[] =>
    Array.isArray(value) ? value : textIn(value) === '' ? [] : [{ type: 'text', text: textIn(value) }];
  return [...toParts(before), ...toParts(added)];
}

function joinMessages(events: readonly JsonObject[]): JsonObject {
  const message: JsonObject = {};
  const blocks: JsonObject[] = [];
  const inputs: string[] = [];
  const usage: JsonObject = {};
  const count = (value: Json | undefined): void => {
    for (const [name, each] of Object.entries(objectIn(value) ?? {})) if (each !== null) usage[name] = each;
  };
  for (const event of events) {
    const index = typeof event['index'] === 'number' ? event['index'] : 0;
    const delta = objectIn(event['delta']) ?? {};
    if (event['type'] === 'message_start') count(objectIn(event['message'])?.['usage']);
    else if (event['type'] === 'message_delta') {
      count(event['usage']);
      message['stop_reason'] = delta['stop_reason'] ?? message['stop_reason'] ?? null;
    } else if (event['type'] === 'content_block_start')
      blocks[index] = structuredClone(objectIn(event['content_block']) ?? {});
    else if (event['type'] === 'content_block_delta') addDelta((blocks[index] ??= {}), delta, inputs, index);
  }
  for (const [index, text] of inputs.entries()) {
    const block = blocks[index];
    if (text !== undefined && block !== undefined) block['input'] = parse(text) ?? text;
  }
  return { ...message, content: blocks.filter(block => block !== undefined), usage };
}

function addDelta(block: JsonObject, delta: JsonObject, inputs: string[], index: number): void {
  if (typeof delta['partial_json'] === 'string') inputs[index] = (inputs[index] ?? '') + delta['partial_json'];
  if (delta['citation'] !== undefined) block['citations'] = [...listIn(block['citations']), delta['citation']];
  for (const name of ['text', 'thinking', 'signature']) {
    if (typeof delta[name] === 'string') block[name] = textIn(block[name]) + delta[name];
  }
}

function joinGemini(chunks: readonly JsonObject[]): JsonObject {
  const whole: JsonObject = {};
  const usage: JsonObject = {};
  const candidates: JsonObject[] = [];
  for (const chunk of chunks) {
    Object.assign(usage, objectIn(chunk['usageMetadata']));
    if (chunk['promptFeedback'] !== undefined) whole['promptFeedback'] = chunk['promptFeedback'];
    for (const [position, value] of objectsIn(chunk['candidates']).entries()) {
      const index = typeof value['index'] === 'number' ? value['index'] : position;
      const parts = objectsIn(objectIn(value['content'])?.['parts']);
      const before = candidates[index] ?? { content: { parts: [] } };
      const all = [...listIn(objectIn(before['content'])?.['parts']), ...parts];
      candidates[index] = { ...before, ...value, content: { parts: all } };
    }
  }
  return { ...whole, candidates, ...(Object.keys(usage).length > 0 ? { usageMetadata: usage } : {}) };
}
