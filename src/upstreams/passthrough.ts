import { createHash } from 'node:crypto';
import type { EncodedRequest, Json, JsonObject } from '../codecs/codec.ts';
import { listIn, objectIn, textIn } from '../codecs/json.ts';
import { decodeServiceTier } from '../codecs/service-tier.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { type Extra, type Item, Protocol } from '../gen/tollgate/v1/content_pb.ts';
import { Endpoint, type GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import { refuseUnknown } from '../generation/portable/portable-request.ts';
import { readTier, standardTier } from '../generation/service-tier.ts';
import { findPriced, type WithheldFeature } from '../generation/priced-features.ts';
import { findRefused, isPricedBeta } from './withheld-features.ts';

/**
 * Which of a client's fields a provider gets. `all`: all fields except those that name other models, hosts or credentials. `unpriced`: also not those that cost extra and have no configured price. `known`: of the fields that `unpriced`
 * passes on, only those that the gateway knows.
 */
export type Passthrough = 'all' | 'unpriced' | 'known';

/** A request that is about to be sent. */
interface Outgoing {
  /** The protocol of the provider. */
  readonly protocol: Protocol;
  readonly request: GenerateRequest;
  readonly encoded: EncodedRequest;
  /** The account that pays; undefined: the gateway itself makes the request. */
  readonly accountId: number | undefined;
  /** The tools priced per call whose price the hold covers; absent: none. */
  readonly paidTools?: readonly string[] | undefined;
}

/**
 * Returns the request that the provider gets. Tools that the provider must not run are removed if the request can be answered without them. Throws `unsupported_feature` for all other withheld fields.
 */
export function filterBody(policy: Passthrough, outgoing: Outgoing): EncodedRequest {
  const { protocol, request, accountId } = outgoing;
  const encoded = policy === 'known' ? restoreNames(outgoing.encoded) : outgoing.encoded;
  const { body } = encoded;
  refuseAlways(body);
  const priced = findPriced(body, countSamples(request)).filter(
    ({ feature }) => outgoing.paidTools?.includes(feature) !== true,
  );
  const unpriced = policy === 'all' ? priced.map(each => unpricedName(body, each)) : [];
  const dropped = policy === 'all' ? [] : removePriced(body, priced);
  if (accountId !== undefined) addNamespace(body, protocol, accountId);
  if (policy === 'known' && request.source?.protocol === protocol) {
    refuseUnknown(request);
    dropped.push(...request.source.unknownFields.filter(path => removePath(body, path.split('.'))));
  }
  if (dropped.length === 0 && unpriced.length === 0) return encoded;
  return { ...encoded, dropped: [...encoded.dropped, ...dropped], ...(unpriced.length > 0 && { unpriced }) };
}

/** Returns the request with the client's own names in its body, in place of the encoder's placeholders for them. */
function restoreNames({ restore, ...encoded }: EncodedRequest): EncodedRequest {
  if (restore === undefined) return encoded;
  return { ...encoded, body: JSON.parse(restore(JSON.stringify(encoded.body))) as JsonObject };
}

/**
 * Removes tools that cost extra from `body`, and returns their paths for the list of dropped fields. Throws `unsupported_feature` for other fields that cost extra, and for a tool whose use the request demands. Source: docs/interfaces/README.md "Unknown fields and values".
 */
function removePriced(body: JsonObject, priced: readonly WithheldFeature[]): string[] {
  const [first] = priced;
  if (first === undefined) return [];
  // A setting of a tool that is left out is left out with it.
  const isLeft = (param: string): boolean => priced.some(each => param.startsWith(`${each.param}.container`));
  const refused = priced.find(({ param }) => !toolPath.test(param) && !isLeft(param));
  if (refused !== undefined) throw withheld(refused);
  const later = new Set(
    priced.map(({ param }) => param).filter(param => toolPath.test(param) && !ownToolPath.test(param)),
  );
  const dropped = removeLater(body, later);
  const places = new Set(priced.map(({ param }) => ownToolPath.exec(param)?.[1]));
  const tools = listIn(body['tools']);
  const remaining = tools.filter((_, index) => !places.has(String(index)));
  const removed = tools.filter((_, index) => places.has(String(index))).map(tool => objectIn(tool) ?? {});
  if (removed.length === 0) return dropped;
  if (insistsOn(body['tool_choice'] ?? callingMode(body), { removed, remaining })) throw withheld(first);
  if (remaining.length > 0) body['tools'] = remaining;
  else for (const name of toolMembers) Reflect.deleteProperty(body, name);
  return [...dropped, ...removed.map(tool => `tools.${toolName(tool)}`)];
}

/** Returns the name of a member that a record has: of a tool its type, else its path. */
function unpricedName(body: JsonObject, { param }: WithheldFeature): string {
  const tool = objectIn(listIn(body['tools'])[Number(ownToolPath.exec(param)?.[1] ?? -1)]);
  return tool === undefined ? param : `tools.${toolName(tool)}`;
}

/** The members of a body that say something only if it has tools. */
const toolMembers = ['tools', 'tool_choice', 'parallel_tool_calls', 'toolConfig', 'tool_config'];

/** Returns `required` if a body of Gemini demands a call. */
function callingMode(body: JsonObject): string {
  const config = objectIn(body['toolConfig'] ?? body['tool_config']);
  const calling = objectIn(config?.['functionCallingConfig'] ?? config?.['function_calling_config']);
  return textIn(calling?.['mode']) === 'ANY' ? 'required' : '';
}

function toolName(tool: JsonObject): string {
  return textIn(tool['type']) || Object.keys(tool).join();
}

/** The path of a tool that can be left out: one of the body, of a namespace, or of an item of the input. */
const toolPath = /^(?:input\.\d+\.)?tools\.\d+(?:\.tools\.\d+)*$/;
const ownToolPath = /^tools\.(\d+)$/;

/** Removes the tools at `paths` from namespaces and from items of the input. Returns their names for the list of dropped fields. */
function removeLater(body: JsonObject, paths: ReadonlySet<string>): string[] {
  if (paths.size === 0) return [];
  const dropped: string[] = [];
  const prune = (holder: JsonObject, path: string): void => {
    const tools = listIn(holder['tools']);
    if (tools.length === 0) return;
    holder['tools'] = tools.filter((tool, index) => {
      const at = `${path}tools.${index}`;
      const own = objectIn(tool);
      if (own === undefined) return true;
      if (paths.has(at)) dropped.push(`tools.${toolName(own)}`);
      else prune(own, `${at}.`);
      return !paths.has(at);
    });
  };
  prune(body, '');
  for (const [index, item] of listIn(body['input']).entries()) prune(objectIn(item) ?? {}, `input.${index}.`);
  return dropped;
}

/** Returns how many samples of each prompt a request is admitted for. */
function countSamples({ candidates = 1, endpoint, items }: GenerateRequest): number {
  return endpoint === Endpoint.COMPLETIONS ? candidates / items.length : candidates;
}

/** Returns whether a tool choice, in any protocol's form, demands a tool that is removed. */
function insistsOn(
  choice: Json | undefined,
  { removed, remaining }: { readonly removed: readonly JsonObject[]; readonly remaining: readonly Json[] },
): boolean {
  if (typeof choice === 'string') return choice === 'required' && remaining.length === 0;
  const named = objectIn(choice);
  if (named === undefined) return false;
  const type = textIn(named['type']);
  if (['any', 'required'].includes(type) || named['mode'] === 'required') return remaining.length === 0;
  return removed.some(tool => tool['type'] === type || (type === 'tool' && tool['name'] === named['name']));
}

/** Throws `unsupported_feature` if a body has a member that no policy allows: it names other models, hosts, credentials or payers. */
function refuseAlways(body: JsonObject): void {
  const refused = findRefused(body);
  if (refused === undefined) return;
  const { param, reason } = refused;
  throw new GatewayError('unsupported_feature', `\`${param}\` is not offered here: ${reason}.`, { param });
}

/**
 * Returns the body of a request of a direct endpoint, as it is. Throws `unsupported_feature` for a member that the policy does not allow. `samples`: how many
 * answers the request is admitted for.
 */
export function checkDirect<Body extends object>(policy: Passthrough, body: Body, samples = 1): Body {
  refuseAlways(body as JsonObject);
  const [priced] =
    policy === 'all' ? [] : [...findTier(body as JsonObject), ...findPriced(body as JsonObject, samples)];
  if (priced !== undefined) throw withheld(priced);
  return body;
}

/** Returns the tier of a body if it is not the standard one: what is not text has one price for all tiers. */
function findTier({ service_tier: word }: JsonObject): WithheldFeature[] {
  if (word == null || (typeof word === 'string' && readTier(decodeServiceTier(word)) === standardTier)) return [];
  return [{ feature: 'that tier', param: 'service_tier' }];
}

function withheld({ feature, param }: WithheldFeature): GatewayError {
  const message = `\`${param}\` is not offered here: the model has no price for ${feature}.`;
  return new GatewayError('unsupported_feature', message, { param });
}

/** Removes the member at a path. Returns whether it was there. Entries of arrays are not removed, because that would change the index of the entries after them. */
function removePath(body: JsonObject, path: readonly string[]): boolean {
  let at: unknown = body;
  for (const name of path.slice(0, -1)) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, name)) return false;
    at = (at as Record<string, unknown>)[name];
  }
  const last = path.at(-1) ?? '';
  if (typeof at !== 'object' || at === null || Array.isArray(at) || !Object.hasOwn(at, last)) return false;
  Reflect.deleteProperty(at, last);
  return true;
}

/** Fields that identify an end user or a cache at the provider. They get a prefix for the account: otherwise one account could use the cache of another, or be blamed for another's requests. */
const identifierMembers = ['user', 'safety_identifier', 'prompt_cache_key'] as const;
/** The longest value that providers accept. */
const identifierLengthMax = 64;

function addNamespace(body: JsonObject, protocol: Protocol, accountId: number): void {
  for (const member of identifierMembers) {
    const value = body[member];
    if (typeof value === 'string') body[member] = addPrefix(value, accountId);
  }
  const { metadata } = body;
  // In other protocols `metadata` has the client's own labels.
  if (protocol !== Protocol.MESSAGES || typeof metadata !== 'object' || metadata === null || Array.isArray(metadata))
    return;
  if (typeof metadata['user_id'] === 'string') {
    body['metadata'] = { ...metadata, user_id: addPrefix(metadata['user_id'], accountId) };
  }
}

/** Returns an identifier with the account's prefix, which no other account can have: readable if it is short enough, else hashed. */
function addPrefix(name: string, accountId: number): string {
  const readable = `${accountId}:${name}`;
  if (readable.length <= identifierLengthMax) return readable;
  return `${accountId}:${createHash('sha256').update(name).digest('base64url')}`;
}

/** The headers that a provider gets, the values that it does not get, and those that it gets although no price covers them (absent: none). */
export interface FilteredHeaders {
  readonly headers: Readonly<Record<string, string>>;
  readonly withheld: readonly string[];
  readonly unpriced?: readonly string[];
}

/** Returns the headers of the client's protocol that the provider gets, and the values that are withheld from it. */
export function filterHeaders(policy: Passthrough, headers: Readonly<Record<string, string>>): FilteredHeaders {
  const value = headers[betaHeader];
  if (value === undefined) return { headers, withheld: [] };
  const betas = value.split(',').map(each => each.trim());
  if (policy === 'all') return { headers, withheld: [], unpriced: betas.filter(isPricedBeta).map(namedBeta) };
  const kept = policy === 'known' ? [] : betas.filter(beta => !isPricedBeta(beta));
  if (kept.length === betas.length) return { headers, withheld: [] };
  const { [betaHeader]: _, ...rest } = headers;
  return {
    headers: kept.length === 0 ? rest : { ...rest, [betaHeader]: kept.join(',') },
    withheld: betas.filter(beta => !kept.includes(beta)).map(namedBeta),
  };
}

function namedBeta(beta: string): string {
  return `${betaHeader}:${beta}`;
}

const betaHeader = 'anthropic-beta';

/** Returns a request without the unknown members (`extra`) of its items, parts and tools. */
export function withoutExtras(request: GenerateRequest): GenerateRequest {
  return { ...request, items: request.items.map(itemWithoutExtras), tools: request.tools.map(withoutExtra) };
}

function itemWithoutExtras(item: Item): Item {
  const { content } = item;
  if (content.case === 'message') {
    return withoutExtra({
      ...item,
      content: { ...content, value: { ...content.value, parts: content.value.parts.map(withoutExtra) } },
    });
  }
  if (content.case === 'toolResult') {
    return withoutExtra({
      ...item,
      content: { ...content, value: { ...content.value, parts: content.value.parts.map(withoutExtra) } },
    });
  }
  return withoutExtra(item);
}

function withoutExtra<T extends { extra?: Extra | undefined }>(value: T): T {
  if (value.extra === undefined) return value;
  const copy = { ...value };
  delete copy.extra;
  return copy;
}
