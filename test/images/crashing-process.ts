/** Simulates a process that crashes at a chosen call: from then on its calls have no effect and never return. */
export class CrashingProcess {
  /** How many calls of watched methods it has made. */
  calls = 0;
  readonly #diesAt: number;
  readonly #completesLastCall: boolean;
  readonly #died = Promise.withResolvers<void>();

  /** Crashes at call number `diesAt` (the first is 1). If `completesLastCall`, that call still takes effect, but never returns. */
  constructor(diesAt: number, completesLastCall: boolean) {
    this.#diesAt = diesAt;
    this.#completesLastCall = completesLastCall;
  }

  /** Resolves once the process has crashed. */
  get died(): Promise<void> {
    return this.#died.promise;
  }

  /** Returns `target`, wrapped so that calls of the named methods are counted and stop at the crash. */
  watch<Target extends object>(target: Target, methods: readonly (keyof Target & string)[]): Target {
    return new Proxy(target, {
      get: (proxied, name) => {
        const member: unknown = Reflect.get(proxied, name, proxied);
        if (typeof member !== 'function') return member;
        const call = (...values: unknown[]): unknown => Reflect.apply(member, proxied, values);
        return methods.some(each => each === name) ? (...values: unknown[]) => this.#counted(call, values) : call;
      },
    });
  }

  async #counted(call: (...values: unknown[]) => unknown, values: unknown[]): Promise<unknown> {
    this.calls += 1;
    const number = this.calls;
    if (number < this.#diesAt) return call(...values);
    if (number === this.#diesAt && this.#completesLastCall) await call(...values);
    this.#died.resolve();
    return Promise.withResolvers<unknown>().promise;
  }
}
