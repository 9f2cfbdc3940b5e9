/**
 * Checks the gateway's output against the public Open Responses schema of 2026-04-24 (Apache-2.0). `open-responses.json` has the schema: the fields of each type with their types in TypeScript's notation, optional fields with a question mark.
 * Ids like JS-08 name cases of `test/translation/cases.json`.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Ajv, type ValidateFunction } from 'ajv';
import type { Json, JsonObject } from '../../src/codecs/codec.ts';
import { listIn, objectIn, textIn } from '../../src/codecs/json.ts';

/** Fields of an object, or the notation of a type that is not an object. */
type Shape = string | Readonly<Record<string, string>>;

const shapes = JSON.parse(readFileSync(resolve(import.meta.dirname, 'open-responses.json'), 'utf8')) as Readonly<
  Record<string, Shape>
>;

/**
 * The gateway's deviations from the schema, each with its source. Only these are removed before the check.
 */
export const deviations = {
  schema:
    '`text.format.schema`: the schema has only null, the official client the real one (docs/interfaces/responses.md "Open Responses", case JS-08)',
  effort:
    '`reasoning.effort`: "minimal" and "max" are echoed as requested (docs/interfaces/responses.md "Open Responses")',
  custom: 'free-form tools, their calls and outputs: the official client’s (docs/interfaces/README.md "Tool calls")',
  hosted:
    'tools that an upstream of the protocol runs, and their items: as they came (docs/interfaces/README.md "Tools of one provider", "Translation")',
  citation:
    'citations other than addresses, of an upstream of the protocol: as they came (docs/interfaces/README.md "Translation")',
} as const;

/** Checks responses and events. */
export interface Judge {
  /** Returns what is wrong with a response; undefined if nothing is. */
  resource(value: JsonObject): string | undefined;
  /** Returns what is wrong with an event of a stream; undefined if nothing is. */
  event(value: JsonObject): string | undefined;
}

const alternatives = / \| (?![^[]*\])/;

/** Returns the JSON schema of a notation: `'literal'`, `string`, `[Entry]`, `{Value}` (an object of values), `any`, the name of a shape, or several with ` | ` between them. */
function toSchema(notation: string): JsonObject {
  const several = notation.split(alternatives);
  if (several.length > 1) return { anyOf: several.map(toSchema) };
  const inner = notation.slice(1, -1);
  if (notation.startsWith("'")) return { const: inner };
  if (notation.startsWith('[')) return { type: 'array', items: toSchema(inner) };
  if (notation.startsWith('{')) return { type: 'object', additionalProperties: toSchema(inner) };
  if (notation === 'any') return {};
  return notation in shapes ? { $ref: `#/$defs/${notation}` } : { type: notation };
}

function shapeToSchema(shape: Shape): JsonObject {
  if (typeof shape === 'string') return toSchema(shape);
  const fields = Object.entries(shape);
  return {
    type: 'object',
    properties: Object.fromEntries(fields.map(([name, held]) => [name.replace('?', ''), toSchema(held)])),
    required: fields.map(([name]) => name).filter(name => !name.endsWith('?')),
  };
}

/** Returns the checks of responses and events. */
export function openJudge(): Judge {
  const ajv = new Ajv({ strict: false, allErrors: true });
  const $defs = Object.fromEntries(Object.entries(shapes).map(([name, shape]) => [name, shapeToSchema(shape)]));
  ajv.addSchema({ $id: 'api', $defs });
  const compiled = (name: string): ValidateFunction => ajv.compile({ $ref: `api#/$defs/${name}` });
  const resource = compiled('ResponseResource');
  const events = new Map<string, ValidateFunction>();
  for (const [name, shape] of Object.entries(shapes)) {
    if (name.endsWith('StreamingEvent') && typeof shape !== 'string') {
      events.set((shape['type'] ?? '').slice(1, -1), compiled(name));
    }
  }
  return {
    resource: value => findFault(resource, followed(value)),
    event: value => {
      const validate = events.get(textIn(value['type']));
      const own = followed(value);
      if (own === undefined) return undefined;
      return validate === undefined ? `there is no event ${textIn(value['type'])}` : findFault(validate, own);
    },
  };
}

function findFault(validate: ValidateFunction, value: JsonObject | undefined): string | undefined {
  if (value === undefined || validate(value)) return undefined;
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`).join('; ');
}

const ownEvents = new Set(['response.custom_tool_call_input.delta', 'response.custom_tool_call_input.done']);
const hosted = /^(web_search_call|web_search)$/;

/** Returns the value with every deviation replaced by what the schema expects; undefined if the whole value is a deviation. */
function followed(value: JsonObject): JsonObject | undefined {
  if (ownEvents.has(textIn(value['type']))) return undefined;
  const copy = structuredClone(value);
  const response = copy['object'] === 'response' ? copy : objectIn(copy['response']);
  if (response !== undefined) followResource(response);
  const item = objectIn(copy['item']);
  if (item !== undefined) {
    const own = followItem(item);
    if (own === undefined) return undefined;
    copy['item'] = own;
  }
  const part = objectIn(copy['part']);
  if (part !== undefined) copy['part'] = followPart(part);
  const annotation = objectIn(copy['annotation']);
  return annotation === undefined || annotation['type'] === 'url_citation' ? copy : undefined;
}

function followResource(response: JsonObject): void {
  const format = objectIn(objectIn(response['text'])?.['format']);
  if (format?.['type'] === 'json_schema') format['schema'] = null;
  const reasoning = objectIn(response['reasoning']);
  if (reasoning !== undefined && ['minimal', 'max'].includes(textIn(reasoning['effort']))) reasoning['effort'] = 'low';
  response['output'] = each(response['output'], followItem);
  response['tools'] = each(response['tools'], followTool);
  const choice = objectIn(response['tool_choice']);
  if (choice?.['type'] === 'custom') choice['type'] = 'function';
  if (hosted.test(textIn(choice?.['type']))) response['tool_choice'] = 'auto';
  const allowed = objects(choice?.['tools']);
  if (choice !== undefined && allowed.length > 0) {
    choice['tools'] = allowed
      .filter(tool => !hosted.test(textIn(tool['type'])))
      .map(tool => ({ ...tool, type: 'function' }));
  }
}

/** Applies `follow` to the entries of a list. Returns any other value unchanged, so that the schema refuses it. */
function each(value: Json | undefined, follow: (entry: JsonObject) => JsonObject | undefined): Json {
  if (!Array.isArray(value)) return value ?? null;
  return objects(value)
    .map(follow)
    .filter(entry => entry !== undefined);
}

function objects(value: Json | undefined): JsonObject[] {
  return listIn(value).map(entry => objectIn(entry) ?? {});
}

function followItem(item: JsonObject): JsonObject | undefined {
  if (hosted.test(textIn(item['type']))) return undefined;
  if (item['type'] === 'custom_tool_call') return { ...item, type: 'function_call', arguments: item['input'] ?? null };
  if (item['type'] === 'custom_tool_call_output') return { ...item, type: 'function_call_output' };
  return item['type'] === 'message' ? { ...item, content: each(item['content'], followPart) } : item;
}

function followPart(part: JsonObject): JsonObject {
  const cited = each(part['annotations'], entry => (entry['type'] === 'url_citation' ? entry : undefined));
  return part['type'] === 'output_text' ? { ...part, annotations: cited } : part;
}

function followTool(tool: JsonObject): JsonObject | undefined {
  if (hosted.test(textIn(tool['type']))) return undefined;
  return tool['type'] === 'custom' ? { ...tool, type: 'function', parameters: null, strict: null } : tool;
}
