import type { RouteName } from './observer.ts';

/** Problems of a route that its answers show, although they are no errors. */
export interface RouteFindings {
  /** The model that the provider reports, if it differs from the requested one; undefined: it does not differ, or is not reported. */
  readonly answersAs: string | undefined;
  /** True if the provider has reported far fewer tokens for a prompt than were sent, so that it must have cut it. */
  readonly cutsInput: boolean;
}

/** Called once for each new finding. */
export interface FindingsObserver {
  /** `model`: the one that the provider reports instead of the requested one. */
  answeredAs?(route: RouteName, model: string): void;
  /** The provider has cut a prompt. */
  inputCut?(route: RouteName): void;
  /** The provider may have billed a member without a price here; called for each request. `isNew`: the first time for this provider and member. */
  unpriced?(route: RouteName, member: string, isNew: boolean): void;
  /** The provider has reported something that is not believed. */
  usageDoubtful?(route: RouteName, doubt: UsageDoubt): void;
}

/** A report of a provider that is not believed. */
export interface UsageDoubt {
  /** The reported feature, as `input_tokens` or `service_tier`. */
  readonly member: string;
  readonly reported: string | number;
  /** The amount that is charged instead. */
  readonly believed: string | number;
}

/** The most facts that are reported once each. */
const reportedMax = 10_000;

const none: RouteFindings = { answersAs: undefined, cutsInput: false };
const toKey = ({ modelId, provider, model }: RouteName): string => JSON.stringify([modelId, provider, model]);

/** Collects findings from answers. */
export class Findings {
  readonly #observer: FindingsObserver;
  readonly #found = new Map<string, RouteFindings>();
  /** The model that each route reported last. Only if an answer has another one, the names are compared. */
  readonly #last = new WeakMap<RouteName, string>();
  readonly #reported = new Set<string>();

  constructor(observer: FindingsObserver) {
    this.#observer = observer;
  }

  /** Records the model that an answer reports; '' if it reports none. */
  answered(route: RouteName, model: string): void {
    if (model === '' || model === route.model || this.#last.get(route) === model) return;
    this.#last.set(route, model);
    const key = toKey(route);
    const answersAs = isSameModel(route.model, model) ? undefined : model;
    this.#found.set(key, { ...this.of(route), answersAs });
    if (answersAs === undefined || this.#reported.has(key + model)) return;
    this.#reported.add(key + model);
    this.#observer.answeredAs?.(route, model);
  }

  /** Records that a prompt was cut. */
  inputCut(route: RouteName): void {
    const findings = this.of(route);
    if (findings.cutsInput) return;
    this.#found.set(toKey(route), { ...findings, cutsInput: true });
    this.#observer.inputCut?.(route);
  }

  /** Records the members that the route's provider may have billed without a price here. */
  unpriced(route: RouteName, members: readonly string[]): void {
    for (const member of members) {
      this.#observer.unpriced?.(route, member, this.#isFirst(JSON.stringify(['unpriced', route.provider, member])));
    }
  }

  /** Records that a report of the route's provider is not believed. The observer is told once for each route and member. */
  usageDoubtful(route: RouteName, doubt: UsageDoubt): void {
    if (this.#isFirst(toKey(route) + doubt.member)) this.#observer.usageDoubtful?.(route, doubt);
  }

  /** Returns true once for each of the first facts; false for further ones, since providers name some of them. */
  #isFirst(fact: string): boolean {
    if (this.#reported.has(fact) || this.#reported.size >= reportedMax) return false;
    this.#reported.add(fact);
    return true;
  }

  /** Returns the findings about a route. */
  of(route: RouteName): RouteFindings {
    return this.#found.get(toKey(route)) ?? none;
  }
}

/**
 * Returns true if a provider's name probably means the requested model. Ignores upper case, paths, the part before the slash, and a version, date or tag that one of the names has at its end.
 */
export function isSameModel(requested: string, answered: string): boolean {
  const [one, other] = [plainName(requested), plainName(answered)];
  return one === other || isVersionOf(other, one) || isVersionOf(one, other);
}

function plainName(name: string): string {
  const file = name.toLowerCase().split(/[/\\]/).at(-1) ?? '';
  return file.replace(/[-:]latest$/, '').replace(/\.gguf$/, '');
}

function isVersionOf(long: string, short: string): boolean {
  return short !== '' && long.startsWith(short) && /^[-@:.]v?\d[\w.:-]*$/.test(long.slice(short.length));
}
