import type { SourceRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { reasoningName } from '../../generation/check/field-names.ts';
import type { EncodeInput, Json, JsonObject } from '../codec.ts';
import type { Drops } from '../drops.ts';
import { findToolFeature } from '../../generation/priced-features.ts';
import { listIn, objectIn, textIn } from '../json.ts';
import { type SentBody, sentBody } from '../sent-body.ts';
import { tierName } from '../service-tier.ts';
import { findTraits } from './model-traits.ts';
import { spelledName, toCamelCase } from './normal-form.ts';
import { isSealed } from './sealed-signature.ts';
import { skipCheck } from './signature.ts';

/** The stop sequences that the provider accepts; the gateway itself matches all. */
export const stopsMax = 5;

/**
 * Patches the JSON of a Gemini client for a Gemini upstream: sets the route's limit, tier and number of answers, and removes signatures that seal another
 * protocol's reasoning, since only Google's are valid there. Everything else is unchanged, in the client's spelling.
 */
export function patchedRequest(input: EncodeInput, source: SourceRequest, drops: Drops): SentBody {
  const { request, model, maxOutputTokens } = input;
  const sent = sentBody(source);
  const { body } = sent;
  // The model is in the path.
  delete body['model'];
  dropDoubles(body);
  const name = spelledName(body, 'generationConfig');
  const config = objectIn(body[name]) ?? {};
  dropDoubles(config);
  setMember(config, 'maxOutputTokens', maxOutputTokens);
  const count = request.candidates ?? 1;
  if (config[spelledName(config, 'candidateCount')] !== count) {
    setMember(config, 'candidateCount', count > 1 ? count : undefined);
  }
  const stops = spelledName(config, 'stopSequences');
  const texts = listIn(config[stops]).filter(text => text !== '');
  if (texts.length > 0) config[stops] = texts.slice(0, stopsMax);
  if (Object.keys(config).length > 0) body[name] = config;
  patchTier(body, tierName(request));
  splitTools(body);
  const { checksSignatures } = findTraits(model);
  const contents = body['contents'];
  const onDrop = (): void => drops.add(reasoningName(request.endpoint));
  const patch = (content: Json): Json => withoutSeals(content, checksSignatures, onDrop);
  body['contents'] = Array.isArray(contents) ? contents.map(patch) : patch(contents ?? null);
  return sent;
}

/** Removes members that are there in both spellings: the one in camelCase was read, and is sent. */
function dropDoubles(holder: JsonObject): void {
  for (const name of Object.keys(holder)) {
    if (name.includes('_') && holder[toCamelCase(name)] !== undefined) delete holder[name];
  }
}

function setMember(holder: JsonObject, camel: string, value: number | undefined): void {
  const name = spelledName(holder, camel);
  if (value === undefined) delete holder[name];
  else holder[name] = value;
}

function patchTier(body: JsonObject, tier: string | undefined): void {
  const name = spelledName(body, 'serviceTier');
  const sent = textIn(body[name]).toLowerCase();
  if (tier !== undefined) body[name] = tier;
  // The route has another tier than the client asked for.
  else if (sent !== 'standard' && sent !== 'unspecified') delete body[name];
}

/** Gives each tool of an entry its own entry if one of them costs extra, so that it can be left out without the others. */
function splitTools(body: JsonObject): void {
  const { tools } = body;
  const list = Array.isArray(tools) ? tools : objectIn(tools) === undefined ? [] : [tools ?? null];
  const isSplit = (tool: Json): boolean =>
    Object.keys(objectIn(tool) ?? {}).length > 1 && findToolFeature(tool) !== undefined;
  if (!list.some(isSplit)) return;
  body['tools'] = list.flatMap(tool =>
    isSplit(tool) ? Object.entries(objectIn(tool) ?? {}).map(([name, value]) => ({ [name]: value })) : [tool],
  );
}

function withoutSeals(value: Json, checksSignatures: boolean, onDrop: () => void): Json {
  const content = objectIn(value);
  if (content === undefined) return value;
  const { parts } = content;
  const list = Array.isArray(parts) ? parts : [];
  if (!list.some(hasSeal)) return value;
  onDrop();
  const kept = list.flatMap(part => withoutSeal(part, checksSignatures));
  return { ...content, parts: kept };
}

function hasSeal(value: Json): boolean {
  const part = objectIn(value);
  return part !== undefined && isSealed(textIn(part[spelledName(part, 'thoughtSignature')]));
}

/** Returns a part without the seal; nothing if the part had only that, or is another protocol's thought. */
function withoutSeal(value: Json, checksSignatures: boolean): Json[] {
  const part = objectIn(value);
  if (part === undefined || !hasSeal(part)) return [value];
  const name = spelledName(part, 'thoughtSignature');
  const { [name]: _, ...rest } = part;
  const isCall = objectIn(part[spelledName(part, 'functionCall')]) !== undefined;
  if (isCall) return [checksSignatures ? { ...rest, [name]: skipCheck } : rest];
  const isEmpty = rest['thought'] === true || (rest['text'] === '' && Object.keys(rest).length === 1);
  return isEmpty ? [] : [rest];
}
