import { GatewayError } from '../../errors/gateway-error.ts';
import type { BatchLine } from '../../generation/batches/batch-codec.ts';

/** Maximum length of an id. It is limited because the id is stored with every result. */
const customIdMax = 512;
const messagesIdPattern = /^[\w-]{1,64}$/;

/** Reads a parsed line `{custom_id, method, url, body}` of a file for the interface with the path `url`. Throws `validation_error` that names the member. */
export function readOpenAiItem(value: unknown, url: string): BatchLine {
  if (!isObject(value)) throw invalidMember('', 'The line must be a JSON object.');
  const { custom_id: customId, method, url: sentUrl, body } = value;
  if (typeof customId !== 'string' || customId === '' || customId.length > customIdMax) {
    throw invalidMember('custom_id', `custom_id must be a string of 1 to ${customIdMax} characters.`);
  }
  if (method !== 'POST') throw invalidMember('method', 'method must be POST.');
  const model = typeof sentUrl === 'string' ? modelIn(sentUrl, url) : undefined;
  if (model === undefined) throw invalidMember('url', `url must be ${url}, the endpoint of the batch.`);
  if (!isObject(body)) throw invalidMember('body', 'body must be a JSON object.');
  return model === '' ? { customId, body } : { customId, body, model };
}

const modelPlace = '{model}';

/** Returns the model in an address, as the pattern of the path has it; '' if the pattern has none; undefined if the address does not match. */
function modelIn(sent: string, pattern: string): string | undefined {
  const [start = '', end] = pattern.split(modelPlace);
  if (end === undefined) return sent === pattern ? '' : undefined;
  const isMatch = sent.startsWith(start) && sent.endsWith(end) && sent.length > start.length + end.length;
  return isMatch ? sent.slice(start.length, sent.length - end.length) : undefined;
}

/** Reads a parsed request `{custom_id, params}` of a batch of Messages. Throws `validation_error` that names the member. */
export function readMessagesItem(value: unknown): BatchLine {
  if (!isObject(value)) throw invalidMember('', 'The request must be a JSON object.');
  const { custom_id: customId, params } = value;
  if (typeof customId !== 'string' || !messagesIdPattern.test(customId)) {
    throw invalidMember('custom_id', 'custom_id must be 1 to 64 letters, digits, hyphens and underscores.');
  }
  if (!isObject(params)) throw invalidMember('params', 'params must be a JSON object.');
  return { customId, body: params };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function invalidMember(param: string, message: string): GatewayError {
  return new GatewayError('validation_error', message, { param });
}
