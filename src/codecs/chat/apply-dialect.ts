import { hashText } from '../../generation/call-id.ts';
import type { Json, JsonObject } from '../codec.ts';
import type { Dialect, Effort } from '../dialect.ts';
import type { Drops } from '../drops.ts';
import { listIn, objectIn, objectsIn, textIn } from '../json.ts';

/**
 * Changes the body of a Chat request to what a server takes, whoever made the body. What is left out is listed in `drops`, by its name in
 * Chat. Source: docs/providers.md "Differences between providers".
 */
export function applyDialect(body: JsonObject, dialect: Dialect, drops: Drops): void {
  applyMembers(body, dialect, drops);
  applyEffort(body, dialect, drops);
  if (dialect.schemas === 'json_object') describeSchema(body);
  let messages = [...listIn(body['messages'])];
  const { developer, callIdLength, reasoning, refusedInMessages = [] } = dialect;
  for (const message of objectsIn(messages)) {
    if (developer !== undefined && message['role'] === 'developer') message['role'] = developer;
    if (callIdLength !== undefined) replaceCallIds(message, callIdLength);
    if (reasoning !== undefined && message['role'] === 'assistant') placeReasoning(message, reasoning, drops);
    for (const name of refusedInMessages) delete message[name];
  }
  if (dialect.systemFirst === true) messages = withSystemFirst(messages);
  if (dialect.afterResults !== undefined) messages = withAnswers(messages, dialect.afterResults);
  body['messages'] = messages;
}

function applyMembers(body: JsonObject, { refused = [], renamed = {} }: Dialect, drops: Drops): void {
  for (const [name, own] of Object.entries(renamed)) {
    const value = body[name];
    if (value === undefined) continue;
    delete body[name];
    body[own] ??= value;
  }
  for (const name of refused) {
    const value = body[name];
    if (value === undefined) continue;
    delete body[name];
    // A value that changes nothing is no loss.
    if (value !== null && value !== neutral[name]) drops.add(name);
  }
}

/** The values of members that have the same effect as leaving them out. */
const neutral: Readonly<Record<string, Json>> = {
  temperature: 1,
  top_p: 1,
  frequency_penalty: 0,
  presence_penalty: 0,
  logprobs: false,
  n: 1,
  parallel_tool_calls: true,
  service_tier: 'auto',
};

const efforts: readonly Effort[] = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'];

/** Sets the effort to the nearest value that the server takes; of two equally near, the lower. */
function applyEffort(body: JsonObject, { thinkingOff, efforts: taken }: Dialect, drops: Drops): void {
  const effort = body['reasoning_effort'];
  if (typeof effort !== 'string') return;
  if (effort === 'none' && thinkingOff !== undefined) {
    delete body['reasoning_effort'];
    Object.assign(body, structuredClone(thinkingOff));
    return;
  }
  const wanted = efforts.findIndex(name => name === effort);
  if (taken === undefined || wanted < 0 || taken.some(name => name === effort)) return;
  const distance = (name: Effort): number => Math.abs(efforts.indexOf(name) - wanted);
  const [nearest] = taken.toSorted((one, other) => distance(one) - distance(other));
  drops.add('reasoning_effort');
  if (nearest === undefined) delete body['reasoning_effort'];
  else body['reasoning_effort'] = nearest;
}

/** Requests an object in place of an answer with a schema, which a text of the system describes. */
function describeSchema(body: JsonObject): void {
  const format = objectIn(body['response_format']);
  const schema = objectIn(format?.['json_schema'])?.['schema'];
  if (format?.['type'] !== 'json_schema') return;
  body['response_format'] = { type: 'json_object' };
  const text = `Answer with a JSON object and nothing else. It must fit this JSON schema: ${JSON.stringify(schema ?? {})}`;
  body['messages'] = [{ role: 'system', content: text }, ...listIn(body['messages'])];
}

function replaceCallIds(message: JsonObject, length: number): void {
  for (const call of objectsIn(message['tool_calls'])) call['id'] = shortCallId(textIn(call['id']), length);
  if (message['tool_call_id'] !== undefined) {
    message['tool_call_id'] = shortCallId(textIn(message['tool_call_id']), length);
  }
}

/** Returns the id if it has exactly `length` letters and digits, else one that only depends on it. */
function shortCallId(id: string, length: number): string {
  if (id.length === length && /^[a-zA-Z0-9]*$/.test(id)) return id;
  return `${hashText(id)}${hashText(`${id}.`)}`.slice(0, length);
}

const reasoningNames = ['reasoning_content', 'reasoning'] as const;

/** Moves the reasoning of an assistant's message to where the server reads it. */
function placeReasoning(message: JsonObject, place: NonNullable<Dialect['reasoning']>, drops: Drops): void {
  const text = reasoningNames.map(name => textIn(message[name])).find(each => each !== '') ?? '';
  for (const name of reasoningNames) if (name !== place) delete message[name];
  if (place === 'parts' || place === 'refused') delete message['reasoning_details'];
  if (text === '') return;
  if (place === 'refused') drops.add('reasoning');
  else if (place !== 'parts') message[place] = text;
  else {
    const { content } = message;
    const rest = typeof content === 'string' ? [{ type: 'text', text: content }] : listIn(content);
    const said = rest.filter(part => objectIn(part)?.['text'] !== '');
    message['content'] = [{ type: 'thinking', thinking: [{ type: 'text', text }] }, ...said];
  }
}

/** Returns the messages with the text of all system messages in one, before all others. */
function withSystemFirst(messages: Json[]): Json[] {
  const isSystem = (message: Json): boolean => textIn(objectIn(message)?.['role']) === 'system';
  if (!messages.some((message, index) => index > 0 && isSystem(message))) return messages;
  const texts = messages.filter(isSystem).map(message => {
    const content = objectIn(message)?.['content'] ?? '';
    return typeof content === 'string'
      ? content
      : objectsIn(content)
          .map(part => textIn(part['text']))
          .join('\n');
  });
  return [{ role: 'system', content: texts.join('\n\n') }, ...messages.filter(message => !isSystem(message))];
}

/** Returns the messages with one of the assistant between each tool's result and a following message of the user. */
function withAnswers(messages: readonly Json[], text: string): Json[] {
  const role = (message: Json | undefined): string => textIn(objectIn(message)?.['role']);
  return messages.flatMap((message, index) => {
    const isMissing = role(message) === 'user' && role(messages[index - 1]) === 'tool';
    return isMissing ? [{ role: 'assistant', content: text }, message] : [message];
  });
}
