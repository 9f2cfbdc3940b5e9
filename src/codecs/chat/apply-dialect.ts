import { hashText } from '../../generation/call-id.ts';
import type { Json, JsonObject } from '../codec.ts';
import type { Dialect } from '../dialect.ts';
import type { Drops } from '../drops.ts';
import { listIn, objectIn, objectsIn, textIn } from '../json.ts';

/**
 * Changes the body of a Chat request to what a server takes, whoever made the body. What is left out is listed in `drops`, by its name in
 * Chat. Source: docs/providers.md "Differences between providers".
 */
export function applyDialect(body: JsonObject, dialect: Dialect, drops: Drops): void {
  applyMembers(body, dialect, drops);
  if (dialect.efforts !== undefined) applyEffort(body, dialect.efforts, drops);
  if (dialect.thinkingOff !== undefined) switchThinkingOff(body, dialect.thinkingOff);
  if (dialect.schemas === 'json_object') describeSchema(body);
  let messages = [...listIn(body['messages'])];
  const { developer, callIdLength, reasoning, reasoningModels, refusedInMessages = [] } = dialect;
  const takesReasoning = reasoningModels?.some(part => textIn(body['model']).includes(part)) !== false;
  for (const message of objectsIn(messages)) {
    if (developer !== undefined && message['role'] === 'developer') message['role'] = developer;
    if (callIdLength !== undefined) replaceCallIds(message, callIdLength);
    if (reasoning !== undefined && message['role'] === 'assistant') {
      placeReasoning(message, reasoning);
      if (!takesReasoning) leaveOut(message, [...reasoningNames, 'reasoning_details'], drops);
    }
    if (message['role'] !== 'tool') leaveOut(message, refusedInMessages, drops);
  }
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
  leaveOut(body, refused, drops);
}

function leaveOut(object: JsonObject, names: readonly string[], drops: Drops): void {
  for (const name of names) {
    const value = object[name];
    if (value === undefined) continue;
    delete object[name];
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

const effortOrder: readonly string[] = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'];

/** Sets the effort to the nearest value that the model takes, or leaves it out if it takes none. */
function applyEffort(body: JsonObject, efforts: NonNullable<Dialect['efforts']>, drops: Drops): void {
  const effort = textIn(body['reasoning_effort']);
  if (effort === '') return;
  const model = textIn(body['model']);
  const taken = Object.entries(efforts).find(([part]) => model.includes(part))?.[1] ?? [];
  if (taken.includes(effort)) return;
  const rank = effortOrder.indexOf(effort);
  const distance = (value: string): number => Math.abs(effortOrder.indexOf(value) - rank);
  // What is not in the order is the effort that a model chooses itself; none is another thing than little.
  const others = taken.filter(value => effort === 'none' || value !== 'none');
  const own = others.find(value => !effortOrder.includes(value));
  const nearest = own ?? others.toSorted((one, other) => distance(one) - distance(other))[0];
  if (nearest === undefined) delete body['reasoning_effort'];
  else body['reasoning_effort'] = nearest;
  if (nearest !== undefined || effort !== 'none') drops.add('reasoning_effort');
}

/** Switches reasoning off in the server's own words. */
function switchThinkingOff(body: JsonObject, thinkingOff: NonNullable<Dialect['thinkingOff']>): void {
  if (body['reasoning_effort'] !== 'none') return;
  delete body['reasoning_effort'];
  Object.assign(body, structuredClone(thinkingOff));
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
function placeReasoning(message: JsonObject, place: NonNullable<Dialect['reasoning']>): void {
  const parts = objectsIn(message['content']).filter(part => part['type'] === 'thinking');
  if (place === 'parts' && parts.length > 0) return;
  const thought = parts.map(
    ({ thinking }) =>
      textIn(thinking) ||
      objectsIn(thinking)
        .map(({ text }) => textIn(text))
        .join(''),
  );
  if (parts.length > 0) {
    message['content'] = listIn(message['content']).filter(part => objectIn(part)?.['type'] !== 'thinking');
  }
  const named = reasoningNames.map(name => textIn(message[name])).find(each => each !== '');
  const text = named ?? thought.join('');
  for (const name of reasoningNames) if (name !== place) delete message[name];
  if (place === 'parts') delete message['reasoning_details'];
  if (text === '') return;
  if (place !== 'parts') message[place] = text;
  else {
    const { content } = message;
    const rest = typeof content === 'string' ? [{ type: 'text', text: content }] : listIn(content);
    const said = rest.filter(part => objectIn(part)?.['text'] !== '');
    message['content'] = [{ type: 'thinking', thinking: [{ type: 'text', text }] }, ...said];
  }
}

/** Returns the messages with one of the assistant between each tool's result and a following message of the user. */
function withAnswers(messages: readonly Json[], text: string): Json[] {
  const role = (message: Json | undefined): string => textIn(objectIn(message)?.['role']);
  return messages.flatMap((message, index) => {
    const isMissing = role(message) === 'user' && role(messages[index - 1]) === 'tool';
    return isMissing ? [{ role: 'assistant', content: text }, message] : [message];
  });
}
