/**
 * The public Open Responses schema as a judge of what the gateway writes. It is reference data beside the checkout, never part of it: where it is missing, who asks for
 * it says loudly that nothing was judged.
 */
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Ajv, type ValidateFunction } from 'ajv';
import type { Json, JsonObject } from '../../src/codecs/codec.ts';
import { listIn, objectIn } from '../../src/codecs/json.ts';

const file = resolve(import.meta.dirname, '../../../shared/spec/open-responses-2026-04-24.openapi.json');

/** Where the gateway does not follow the schema, each with who says so. Nothing else is taken out before the schema judges. */
export const deviations = {
  schema: '`text.format.schema`: the schema has only null, the official client the real one (wire.md B6, case JS-08)',
  effort: '`reasoning.effort`: "minimal" and "max" are echoed as they were asked (wire.md B6)',
  custom: 'free-form tools, their calls and outputs: the official client’s (decisions §4)',
  hosted: 'tools that an upstream of the protocol runs, and their items: as they came (decisions §4, wire.md C3)',
  citation: 'citations other than addresses, of an upstream of the protocol: as they came (decisions §4)',
} as const;

/** Judges resources and events. */
export interface Judge {
  /** What is wrong with a resource; undefined: nothing. */
  resource(value: JsonObject): string | undefined;
  /** What is wrong with an event of a stream; undefined: nothing. */
  event(value: JsonObject): string | undefined;
}

/** Undefined where the schema is not there. */
export function openJudge(): Judge | undefined {
  if (!existsSync(file)) {
    process.stderr.write(
      `\nSKIPPED: ${file} is not there, so that nothing was judged by the Open Responses schema.\n\n`,
    );
    return undefined;
  }
  return judgeOf(JSON.parse(readFileSync(file, 'utf8')) as OpenApi);
}

interface OpenApi {
  readonly components: { readonly schemas: Readonly<Record<string, JsonObject>> };
}

function judgeOf(api: OpenApi): Judge {
  const ajv = new Ajv({ strict: false, allErrors: true, discriminator: false });
  ajv.addSchema({ $id: 'api', ...api } as object);
  const compiled = (name: string): ValidateFunction => ajv.compile({ $ref: `api#/components/schemas/${name}` });
  const resource = compiled('ResponseResource');
  const events = new Map<string, ValidateFunction>();
  for (const [name, schema] of Object.entries(api.components.schemas)) {
    if (name.endsWith('StreamingEvent')) events.set(typeOf(schema), compiled(name));
  }
  return {
    resource: value => faultOf(resource, followed(value)),
    event: value => {
      const validate = events.get(String(value['type']));
      const own = followed(value);
      if (own === undefined) return undefined;
      return validate === undefined ? `there is no event ${String(value['type'])}` : faultOf(validate, own);
    },
  };
}

/** The type of the event that a schema describes. */
function typeOf(schema: JsonObject): string {
  const type = objectIn(objectIn(schema['properties'])?.['type']);
  return String((type?.['enum'] as string[] | undefined)?.[0]);
}

function faultOf(validate: ValidateFunction, value: JsonObject | undefined): string | undefined {
  if (value === undefined || validate(value)) return undefined;
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`).join('; ');
}

const ownEvents = new Set(['response.custom_tool_call_input.delta', 'response.custom_tool_call_input.done']);
const hosted = /^(web_search_call|web_search)$/;

/** The same without what the deviations name: what they replace stands for it. Undefined where all of it is a deviation. */
function followed(value: JsonObject): JsonObject | undefined {
  if (ownEvents.has(String(value['type']))) return undefined;
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
  if (reasoning !== undefined && ['minimal', 'max'].includes(String(reasoning['effort']))) reasoning['effort'] = 'low';
  response['output'] = each(response['output'], followItem);
  response['tools'] = each(response['tools'], followTool);
  const choice = objectIn(response['tool_choice']);
  if (choice?.['type'] === 'custom') choice['type'] = 'function';
  if (hosted.test(String(choice?.['type']))) response['tool_choice'] = 'auto';
  const allowed = objects(choice?.['tools']);
  if (choice !== undefined && allowed.length > 0) {
    choice['tools'] = allowed
      .filter(tool => !hosted.test(String(tool['type'])))
      .map(tool => ({ ...tool, type: 'function' }));
  }
}

/** A list with what a deviation stands for; what is no list is left for the schema to refuse. */
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
  if (hosted.test(String(item['type']))) return undefined;
  if (item['type'] === 'custom_tool_call') return { ...item, type: 'function_call', arguments: item['input'] ?? null };
  if (item['type'] === 'custom_tool_call_output') return { ...item, type: 'function_call_output' };
  return item['type'] === 'message' ? { ...item, content: each(item['content'], followPart) } : item;
}

function followPart(part: JsonObject): JsonObject {
  const cited = each(part['annotations'], entry => (entry['type'] === 'url_citation' ? entry : undefined));
  return part['type'] === 'output_text' ? { ...part, annotations: cited } : part;
}

function followTool(tool: JsonObject): JsonObject | undefined {
  if (hosted.test(String(tool['type']))) return undefined;
  return tool['type'] === 'custom' ? { ...tool, type: 'function', parameters: null, strict: null } : tool;
}
