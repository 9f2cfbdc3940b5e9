import { closest } from '../lib/closest.ts';
import { checkIdentityProvider } from './identity-provider.ts';
import { findModelKind, kindRules, listForeignPrices, listKinds, listProtocols, type ModelKind } from './model-kind.ts';
import type { CompleteFile } from './complete-providers.ts';
import type { ParsedFile, ParsedModel, ParsedPricing, ParsedRoute } from './schema.ts';
import type { YamlPath } from './yaml-source.ts';

/** Reports a mistake: the path of the value, and what is wrong with it. */
type Report = (path: YamlPath, message: string) => void;

/** The ids of models that are not in the file. */
export interface GivenIds {
  /** Ids of built-in models: no model of the file may have one of them. */
  readonly builtIn: readonly string[];
  /** Ids of the models of enabled presets. A model of the file with the same id replaces such a model. */
  readonly preset: readonly string[];
}

const tierSuffix = /:(?:flex|priority)$/;
/** Tiers that a model has by `capabilities.service_tiers`; their factors in `pricing.tiers` do not say that it has them. */
const isUsualTier = (tier: string): boolean => tier === 'flex' || tier === 'priority';

const drawsImages = (model: ParsedModel): boolean => findModelKind(model.endpoints) === 'image';
const mixesKinds = (model: ParsedModel): boolean => listKinds(model.endpoints).length > 1;

/** Returns `; did you mean X?` if one of the known names is similar, else lists them if they are few. */
function suggestion(name: string, known: readonly string[]): string {
  const near = closest(name, known);
  if (near !== undefined) return `; did you mean ${near}?`;
  if (known.length === 0) return '; there are none';
  return known.length <= 12 ? `; there are: ${known.join(', ')}` : '';
}

/** Checks rules that concern several parts of a file. The schema has already checked each part. See docs/configuration.md "Options". */
export function checkConsistency(file: CompleteFile, given: GivenIds, report: Report): void {
  const builtIn = file.simulator.enabled ? given.builtIn : [];
  const listed = [...file.models.map(({ id }) => id), ...builtIn];
  // An alias hides a model of a preset that has the same name.
  const known = [...listed, ...given.preset.filter(id => !Object.hasOwn(file.aliases, id))];
  const taken = new Set(builtIn);
  for (const [index, model] of file.models.entries()) {
    const path = ['models', index];
    if (taken.has(model.id)) {
      report(
        [...path, 'id'],
        `is the id of ${builtIn.includes(model.id) ? 'a built-in' : 'another'} model, must be unique`,
      );
    }
    taken.add(model.id);
    checkModel(model, path, report);
    // A model of several kinds is not checked further, because prices and routes differ between kinds.
    if (mixesKinds(model)) continue;
    checkPricing(model, [...path, 'pricing'], report);
    checkRoutes(model, file, path, report);
  }
  for (const [index, { pricing }] of file.discovered.entries()) {
    checkPrices(pricing, 'text', ['discovered', index, 'pricing'], report);
  }
  checkProviders(file, report);
  checkAliases(file, { listed, known }, report);
  checkPlans(file, known, report);
  checkIdentityProvider(file, report);
  checkParser(file, report);
}

/** The least memory of the parsing thread for each byte of a body. V8 ends the process if one text is larger than the thread's memory, and a text takes two bytes a character. */
const parsedBytesPerByte = 3;

/** Reports if the parsing thread has too little memory for the largest body. */
function checkParser({ limits }: ParsedFile, report: Report): void {
  if (limits.parse_memory >= parsedBytesPerByte * limits.body_bytes) return;
  report(['limits', 'parse_memory'], `must be at least ${parsedBytesPerByte} times limits.body_bytes`);
}

function checkModel(model: ParsedModel, path: YamlPath, report: Report): void {
  const { context_length: context, max_output_tokens: output, endpoints } = model;
  if (tierSuffix.test(model.id)) {
    report([...path, 'id'], 'must not end in :flex or :priority, which callers add to choose a tier');
  }
  if (mixesKinds(model)) {
    const names = listKinds(endpoints).map(kind => kindRules[kind].name);
    report(
      [...path, 'endpoints'],
      `mixes ${names.sort().join(' and ')} paths; split it into ${names.length === 2 ? 'two' : 'several'} models`,
    );
  }
  if (context !== undefined && output !== undefined && output > context) {
    report([...path, 'max_output_tokens'], `must be at most context_length (${context})`);
  }
  const embeds = findModelKind(endpoints) === 'embedding';
  if (model.capabilities.dimensions && !embeds) {
    report([...path, 'capabilities', 'dimensions'], 'is for models that list /v1/embeddings');
  }
  if (model.tokenizer !== undefined && !embeds) {
    report([...path, 'tokenizer'], 'is for models that list /v1/embeddings');
  }
  if (model.max_size !== '' && !drawsImages(model)) {
    report([...path, 'max_size'], 'is for models that list an image path');
  }
  reportDuplicates(endpoints, each => report([...path, 'endpoints'], `lists ${each} twice`));
  reportDuplicates(model.capabilities.service_tiers, each =>
    report([...path, 'capabilities', 'service_tiers'], `lists ${each} twice`),
  );
}

function reportDuplicates(values: readonly string[], report: (value: string) => void): void {
  for (const value of new Set(values.filter((each, index) => values.indexOf(each) !== index))) report(value);
}

function checkPricing(model: ParsedModel, path: YamlPath, report: Report): void {
  const { pricing } = model;
  if (model.id.endsWith(':free')) {
    for (const at of findPositivePrices(pricing, [])) {
      report([...path, ...at], 'must be 0 or left out: a model whose id ends in :free costs nothing');
    }
    return;
  }
  if (pricing === undefined) {
    report(path, 'is missing; every model needs a price (0 for one that costs nothing), or an id that ends in :free');
    return;
  }
  checkPrices(pricing, findModelKind(model.endpoints), path, report);
}

function checkPrices(pricing: ParsedPricing, kind: ModelKind, path: YamlPath, report: Report): void {
  const { needed, name: kindName } = kindRules[kind];
  const [first] = needed;
  const chosen = needed.find(names => names.some(name => pricing[name] !== undefined)) ?? first;
  for (const name of chosen) {
    if (pricing[name] !== undefined) continue;
    const others = needed.filter(names => names !== chosen).map(names => ` (or ${names.join(' and ')})`);
    report([...path, name], `is missing${others.join('')}; a model without a price would not be charged`);
  }
  for (const name of [...listForeignPrices(kind), ...needed.flat().filter(each => !chosen.includes(each))]) {
    if (pricing[name] === undefined) continue;
    report(
      [...path, name],
      `is not charged on ${kindName} models; use ${needed.map(names => names.join(' and ')).join(' or ')}`,
    );
  }
  let threshold = 0;
  for (const [index, step] of pricing.above.entries()) {
    if (step.input_tokens <= threshold) {
      report([...path, 'above', index, 'input_tokens'], `must be more than the step before (${threshold})`);
    }
    threshold = step.input_tokens;
  }
  if (kind !== 'image' && pricing.images.length > 0) report([...path, 'images'], 'is for image models');
  if (kind !== 'text' && pricing.tools !== undefined) report([...path, 'tools'], 'is for text models');
  if (kind !== 'text' && pricing.tiers !== undefined) report([...path, 'tiers'], 'is for text models');
  if (kind !== 'text' && pricing.above.length > 0) report([...path, 'above'], 'is for text models');
}

/** Returns the paths of all prices above 0. */
function findPositivePrices(value: unknown, path: YamlPath): YamlPath[] {
  if (typeof value === 'bigint') return value > 0n ? [path] : [];
  if (Array.isArray(value)) return value.flatMap((item, index) => findPositivePrices(item, [...path, index]));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) => findPositivePrices(member, [...path, name]));
}

function checkRoutes(model: ParsedModel, file: CompleteFile, path: YamlPath, report: Report): void {
  if (model.routes.length === 0 && model.available) {
    report([...path, 'routes'], 'is missing; must have at least one route (or set available: false)');
  }
  const protocols = listProtocols(model.endpoints);
  const seen = new Set<string>();
  for (const [index, { provider, model: name, tiers, cost }] of model.routes.entries()) {
    const at = [...path, 'routes', index];
    checkCost(model, cost, [...at, 'cost'], report);
    const key = JSON.stringify([provider, name]);
    if (seen.has(key)) report(at, `is the same as another route (${provider}, ${name})`);
    seen.add(key);
    for (const tier of tiers ?? []) {
      const isFlagged = model.capabilities.service_tiers.some(each => each === tier);
      if (!isFlagged && (isUsualTier(tier) || !Object.hasOwn(model.pricing?.tiers ?? {}, tier))) {
        report([...at, 'tiers'], `has ${tier}, which the model lacks (capabilities.service_tiers, pricing.tiers)`);
      }
    }
    const found = Object.hasOwn(file.providers, provider) ? file.providers[provider] : undefined;
    if (found === undefined) {
      report([...at, 'provider'], `names no provider${suggestion(provider, Object.keys(file.providers))}`);
    } else if (![found, ...found.others].some(({ protocol }) => protocols.includes(protocol))) {
      const wanted = protocols.join(', ').replace(/, (\w+)$/, ' or $1');
      report(
        [...at, 'provider'],
        `uses ${[found, ...found.others].map(({ protocol }) => protocol).join(' and ')}, must use ${wanted} for ${model.endpoints.join(' and ')}`,
      );
    }
  }
}

/** Checks that a route's cost has the same prices as the model, and that it is present if the strategy is `cheapest`, which compares costs. */
function checkCost(model: ParsedModel, cost: ParsedRoute['cost'], path: YamlPath, report: Report): void {
  const { needed } = kindRules[findModelKind(model.endpoints)];
  const priced = needed.find(names => names.every(name => model.pricing?.[name] !== undefined)) ?? needed[0];
  const isCompared = model.strategy === 'cheapest';
  if (cost === undefined && !isCompared) return;
  for (const name of priced) {
    if (cost?.[name] !== undefined) continue;
    report(
      [...path, name],
      isCompared
        ? 'is missing; strategy: cheapest compares what the provider of each route charges'
        : 'is missing; cost has the same prices as pricing, or is left out',
    );
  }
  if (cost !== undefined && priced.every(name => cost[name] !== undefined)) {
    checkPrices(cost, findModelKind(model.endpoints), path, report);
  }
}

/** The name that the built-in provider has in records and in opaque content. No configured provider may have it. */
const builtInProvider = 'simulator';

function checkProviders(file: CompleteFile, report: Report): void {
  if (Object.hasOwn(file.providers, builtInProvider)) {
    report(['providers', builtInProvider], 'is the name of the built-in provider; must be another');
  }
}

interface AliasIds {
  /** Ids that an alias must not hide. */
  readonly listed: readonly string[];
  /** Ids that an alias may refer to. */
  readonly known: readonly string[];
}

function checkAliases(file: ParsedFile, { listed, known }: AliasIds, report: Report): void {
  for (const [alias, id] of Object.entries(file.aliases)) {
    const path = ['aliases', alias];
    if (listed.includes(alias)) report(path, 'is the id of a model, which an alias would hide');
    if (tierSuffix.test(alias)) report(path, 'must not end in :flex or :priority, which callers add to choose a tier');
    if (!known.includes(id)) report(path, `names no model${suggestion(id, known)}`);
    else if (alias.endsWith(':free') && !id.endsWith(':free')) {
      report(path, 'must name a model whose id ends in :free, as the alias does');
    }
  }
}

function checkPlans(file: ParsedFile, known: readonly string[], report: Report): void {
  for (const [name, plan] of Object.entries(file.plans ?? {})) {
    for (const [index, id] of (plan?.models ?? []).entries()) {
      const path = ['plans', name, 'models', index];
      const model = file.models.find(each => each.id === id);
      if (!known.includes(id)) report(path, `names no model${suggestion(id, known)}`);
      else if (model !== undefined && drawsImages(model)) report(path, 'draws images, which plans never pay for');
    }
  }
}
