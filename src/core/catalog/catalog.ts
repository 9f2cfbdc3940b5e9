import { GatewayError } from '../../errors/gateway-error.ts';
import type { Model } from '../../gen/tollgate/v1/catalog_pb.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import { fieldName } from '../../generation/check/field-names.ts';
import { isTextEndpoint, endpointPath } from '../../generation/endpoints.ts';
import { hasTier, listTiers, standardTier } from '../../generation/service-tier.ts';
import { type Clock, systemClock } from '../../lib/clock.ts';
import { closest } from '../../lib/closest.ts';
import { isRetired, retiredError } from './deprecation.ts';

/** The models and aliases that names are resolved to. */
export interface CatalogContent {
  /** The models in the order in which they are listed; their ids are unique. `available` is the operator's setting. */
  readonly models: readonly Model[];
  /** Listed ids by alias. */
  readonly aliases: ReadonlyMap<string, string>;
}

/** The parts of a request besides the name that affect how the name is resolved. */
export interface ResolveOptions {
  /** The path on which the model will be used; absent or unspecified: any text path. */
  readonly endpoint?: Endpoint;
  /** The name of the tier in the request; absent: the one in the model's name. */
  readonly tier?: string | undefined;
  /** The listed ids that the caller may see, from which alternatives are suggested; null or absent: all. */
  readonly visible?: readonly string[] | null;
}

/** A model and the name of the tier at which the request runs. */
export interface Resolved {
  readonly model: Model;
  readonly tier: string;
}

const tierSuffixPattern = /^(.+):([a-z0-9_-]+)$/is;

/** Tiers that clients of providers know, whether a model here has them or not. Sources: the types of `openai` 7.59 and `@anthropic-ai/sdk` 1.14. */
const clientTiers = ['flex', 'priority', 'scale', 'ultrafast', 'batch'];
/** A model as the Vertex mode of Google's clients names it. */
const publishedPattern = /^publishers\/([^/]+)\/models\/(.+)$/s;
const datePattern = /^(.+)-(?:19|20)\d\d(-?)(?:0[1-9]|1[0-2])\2(?:0[1-9]|[12]\d|3[01])$/s;
const shownLengthMax = 80;

/** The index of a `CatalogContent`, built once. */
interface Index {
  readonly models: readonly Model[];
  readonly byId: ReadonlyMap<string, Model>;
  readonly byAlias: ReadonlyMap<string, Model>;
  /** By the part after the provider; null if several listed models share it. */
  readonly byBarePart: ReadonlyMap<string, Model | null>;
}

/**
 * The models that can be requested; resolves names to them. Pure and in memory: `isAvailable` returns whether a model has a working route
 * (by the circuit breakers), `replace` swaps in a newly read configuration in one step.
 */
export class Catalog {
  readonly #isAvailable: (modelId: string) => boolean;
  readonly #clock: Clock;
  #index: Index;

  constructor(content: CatalogContent, isAvailable: (modelId: string) => boolean, clock: Clock = systemClock) {
    this.#isAvailable = isAvailable;
    this.#clock = clock;
    this.#index = buildIndex(content);
  }

  /** Uses new content from now on. Models that were already returned do not change. Throws if the content is invalid; then nothing changes. */
  replace(content: CatalogContent): void {
    this.#index = buildIndex(content);
  }

  /** Returns all models that are not retired in their order, with the current value of `available`. */
  list(): Model[] {
    const now = this.#clock.now();
    return this.#index.models.filter(model => !isRetired(model, now)).map(model => this.#asNow(model));
  }

  /** Returns true if the model can be used now: the operator has enabled it, and it has a working route. */
  isAvailable(model: Model): boolean {
    return model.available && this.#isAvailable(model.id);
  }

  /**
   * Returns the model that a name means and the tier of the request. `available` of the model has its current value; it is up to the caller to refuse the request because of it. Throws `model_not_found`, `model_retired`, `model_not_supported`, `invalid_request` (two tiers) or `unsupported_feature` (a tier
   * that the model lacks), each with the field at fault. Source: docs/interfaces/models.md "Names of models".
   */
  resolve(name: string, requested: ResolveOptions = {}): Resolved {
    const { model, namedTier } = this.#found(name, requested.visible ?? null);
    if (isRetired(model, this.#clock.now())) throw retiredError(model);
    checkEndpoint(model, requested.endpoint ?? Endpoint.UNSPECIFIED);
    const tier = chooseTier(name, namedTier, requested.tier);
    if (!hasTier(model, tier)) {
      const param = fieldName(requested.endpoint ?? Endpoint.UNSPECIFIED, 'service_tier');
      if (namedTier === undefined && !this.#isKnownTier(tier)) throw unknownTier(tier, param);
      throw new GatewayError('unsupported_feature', `${model.id} has no ${tier} tier.`, {
        param: namedTier === undefined ? param : 'model',
        tip: tiersTip(model),
      });
    }
    return { model: this.#asNow(model), tier };
  }

  /** Returns the listed id that a name means, whatever its paths; ignores a tier in the name. Throws `model_not_found`. */
  findListedId(name: string): string {
    return this.#found(name, null).model.id;
  }

  /** Returns the model that a name means, whatever its paths; for '' the first one. Throws `model_not_found`. */
  named(name: string): Model {
    const [first] = name === '' ? this.list() : [];
    return first ?? this.#asNow(this.#found(name, null).model);
  }

  /**
   * Returns the model that a name means, whatever its paths; undefined if there is none, or if the name has a tier that the model lacks.
   */
  find(name: string): Model | undefined {
    const found = this.#find(name);
    if (found === undefined || isRetired(found.model, this.#clock.now())) return undefined;
    const { model, namedTier } = found;
    return hasTier(model, namedTier ?? standardTier) ? this.#asNow(model) : undefined;
  }

  /** Returns the tip for a name that no model has. */
  suggestion(name: string, visible: readonly string[] | null = null): string {
    const [first = name] = possibleNames(name);
    const plain = tierSuffixPattern.exec(first)?.[1] ?? first;
    const undated = datePattern.exec(plain)?.[1] ?? plain;
    const { models, byAlias, byBarePart } = this.#index;
    const shown = visible && new Set(visible);
    const seen = (model: Model | null | undefined): model is Model =>
      model != null && (shown === null || shown.has(model.id));
    const ids = models.filter(seen).map(({ id }) => id);
    const aliases = [...byAlias].filter(([, model]) => seen(model)).map(([alias]) => alias);
    const parts = [...byBarePart].filter(([, model]) => seen(model)).map(([part]) => part);
    const sharing = [plain, undated].map(part => ids.filter(id => barePart(id) === part)).find(each => each.length > 1);
    if (sharing !== undefined) return `Several models have this name: use ${sharing.slice(0, 5).join(' or ')}.`;
    const near = closest(undated, [...ids, ...aliases, ...parts]);
    const list = 'List the models with GET /v1/models and use one of their ids.';
    return near === undefined ? list : `Did you mean ${near}? ${list}`;
  }

  #asNow(model: Model): Model {
    const available = this.isAvailable(model);
    return available === model.available ? model : { ...model, available };
  }

  #find(name: string): { model: Model; namedTier: string | undefined } | undefined {
    for (const possible of possibleNames(name)) {
      const found = this.#findNamed(possible);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  #findNamed(name: string): { model: Model; namedTier: string | undefined } | undefined {
    const whole = findUntiered(this.#index, name);
    if (whole !== undefined) return { model: whole, namedTier: undefined };
    const [, plain, tier] = tierSuffixPattern.exec(name) ?? [];
    if (plain === undefined || tier === undefined) return undefined;
    const model = findUntiered(this.#index, plain);
    const isTier = tier === 'flex' || tier === 'priority' || (model !== undefined && listTiers(model).includes(tier));
    return isTier ? model && { model, namedTier: tier } : undefined;
  }

  /** Returns whether a tier is one that clients know, or a further one of any model. */
  #isKnownTier(tier: string): boolean {
    return clientTiers.includes(tier) || this.#index.models.some(model => hasTier(model, tier));
  }

  #found(name: string, visible: readonly string[] | null): { model: Model; namedTier: string | undefined } {
    const found = this.#find(name);
    if (found !== undefined) return found;
    const shown = name.length > shownLengthMax ? `${name.slice(0, shownLengthMax)}…` : name;
    throw new GatewayError('model_not_found', `There is no model "${shown}".`, {
      param: 'model',
      tip: this.suggestion(name, visible),
    });
  }
}

/** Returns the names that a name means, the first one first: a publisher is the provider of the id, but Google's own models are named without it. */
function possibleNames(name: string): string[] {
  const [, publisher, model] = publishedPattern.exec(name) ?? [];
  if (publisher === undefined || model === undefined) return [name];
  const id = `${publisher}/${model}`;
  return publisher === 'google' ? [model, id] : [id];
}

/** Returns the part after `provider/`; undefined if the id has none. */
function barePart(id: string): string | undefined {
  const slash = id.indexOf('/');
  return slash < 0 ? undefined : id.slice(slash + 1);
}

function buildIndex({ models, aliases }: CatalogContent): Index {
  const byId = new Map(models.map(model => [model.id, model]));
  if (byId.size !== models.length) throw new Error('two models of the catalogue have the same id');
  const byAlias = new Map<string, Model>();
  for (const [alias, id] of aliases) {
    const model = byId.get(id);
    if (model === undefined) throw new Error(`the alias ${alias} names no model`);
    byAlias.set(alias, model);
  }
  const byBarePart = new Map<string, Model | null>();
  for (const model of models) {
    const part = barePart(model.id);
    if (part !== undefined) byBarePart.set(part, byBarePart.has(part) ? null : model);
  }
  return { models: [...models], byId, byAlias, byBarePart };
}

function findUntiered(index: Index, name: string): Model | undefined {
  const found = findUndated(index, name);
  if (found !== undefined) return found;
  // Ollama's own tools accept `name` for `name:latest`.
  const latest = findUndated(index, `${name}:latest`);
  if (latest !== undefined) return latest;
  const undated = datePattern.exec(name)?.[1];
  // If several listed models share this name including the date, the date is part of their ids; without it the name would mean another model.
  if (undated === undefined || index.byBarePart.has(name)) return undefined;
  return findUndated(index, undated);
}

function findUndated({ byId, byAlias, byBarePart }: Index, name: string): Model | undefined {
  return byId.get(name) ?? byAlias.get(name) ?? byBarePart.get(name) ?? undefined;
}

function checkEndpoint(model: Model, endpoint: Endpoint): void {
  const usable =
    endpoint === Endpoint.UNSPECIFIED ? model.endpoints.some(isTextEndpoint) : model.endpoints.includes(endpoint);
  if (usable) return;
  const where = endpoint === Endpoint.UNSPECIFIED ? 'for text' : `on ${endpointPath(endpoint)}`;
  const paths = model.endpoints.map(endpointPath).join(', ');
  const isChat = endpoint === Endpoint.COMPLETIONS && model.endpoints.includes(Endpoint.CHAT_COMPLETIONS);
  const instead = isChat ? `; use ${endpointPath(Endpoint.CHAT_COMPLETIONS)}` : '';
  throw new GatewayError('model_not_supported', `${model.id} can't be used ${where}${instead}.`, {
    param: 'model',
    tip: paths === '' ? 'Use another model.' : `Use it on ${paths}, or another model here.`,
  });
}

/** Returns the tier of a request; both its model name and its field may set one. */
function chooseTier(name: string, named: string | undefined, field: string | undefined): string {
  if (field === undefined) return named ?? standardTier;
  if (named === undefined || named === field) return field;
  throw new GatewayError(
    'invalid_request',
    `The model "${name}" asks for the tier ${named}, but service_tier asks for ${field}.`,
    { param: 'service_tier', tip: `Leave service_tier out, or the suffix :${named} of the model.` },
  );
}

function unknownTier(tier: string, param: string): GatewayError {
  const message = 'must be a tier: auto, default, flex, priority, or one of the model';
  return new GatewayError('validation_error', `\`${param}\` ${message}, not "${tier.slice(0, shownLengthMax)}".`, {
    param,
    violations: [{ path: [param], message, type: 'invalid_value' }],
  });
}

function tiersTip(model: Model): string {
  const names = listTiers(model);
  if (names.length > 0) return `It has ${names.join(' and ')}; without a tier it runs at the standard one.`;
  return 'Leave the tier out, or choose a model with `capabilities.service_tiers`: GET /v1/models?capability=flex.';
}
