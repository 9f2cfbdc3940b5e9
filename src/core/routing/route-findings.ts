import type { RouteName } from './observer.ts';

/** What answers have shown of a route that no error tells. */
export interface RouteFindings {
  /** The model that its provider says it answers as, if it is another than the one asked; undefined: it is not, or does not say. */
  readonly answersAs: string | undefined;
  /** Its provider has read far less of a prompt than was sent. */
  readonly cutsInput: boolean;
}

/** Told of each finding once. */
export interface FindingsObserver {
  answeredAs?(route: RouteName, model: string): void;
  inputCut?(route: RouteName): void;
}

const none: RouteFindings = { answersAs: undefined, cutsInput: false };
const keyOf = ({ modelId, provider, model }: RouteName): string => JSON.stringify([modelId, provider, model]);

/** Gathers what answers show of routes. */
export class Findings {
  readonly #observer: FindingsObserver;
  readonly #found = new Map<string, RouteFindings>();
  /** The model that each route answered as last: compared first, because it is nearly always the same. */
  readonly #last = new WeakMap<RouteName, string>();
  readonly #said = new Set<string>();

  constructor(observer: FindingsObserver) {
    this.#observer = observer;
  }

  /** Takes in the model that an answer names; '' if it names none. */
  answered(route: RouteName, model: string): void {
    if (model === '' || model === route.model || this.#last.get(route) === model) return;
    this.#last.set(route, model);
    const key = keyOf(route);
    const answersAs = isSameModel(route.model, model) ? undefined : model;
    this.#found.set(key, { ...this.of(route), answersAs });
    if (answersAs === undefined || this.#said.has(key + model)) return;
    this.#said.add(key + model);
    this.#observer.answeredAs?.(route, model);
  }

  /** Takes in that a prompt was cut. */
  inputCut(route: RouteName): void {
    const findings = this.of(route);
    if (findings.cutsInput) return;
    this.#found.set(keyOf(route), { ...findings, cutsInput: true });
    this.#observer.inputCut?.(route);
  }

  /** Returns what is known of a route. */
  of(route: RouteName): RouteFindings {
    return this.#found.get(keyOf(route)) ?? none;
  }
}

/** Returns whether a provider may well mean the same: paths, vendors and upper case apart, with the version, date or tag that it chose by itself. */
export function isSameModel(asked: string, answered: string): boolean {
  const [one, other] = [plainName(asked), plainName(answered)];
  return one === other || isVersionOf(other, one) || isVersionOf(one, other);
}

function plainName(name: string): string {
  const file = name.toLowerCase().split(/[/\\]/).at(-1) ?? '';
  return file.replace(/[-:]latest$/, '').replace(/\.gguf$/, '');
}

function isVersionOf(long: string, short: string): boolean {
  return short !== '' && long.startsWith(short) && /^[-@:.]v?\d[\w.:-]*$/.test(long.slice(short.length));
}
