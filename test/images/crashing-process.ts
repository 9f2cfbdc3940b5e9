/** A process that dies at a chosen moment: from then on its calls have no effect and never return. */
export class CrashingProcess {
  /** How many calls it has made. */
  calls = 0;
  readonly #diesAt: number;
  readonly #completesLastCall: boolean;
  readonly #died = Promise.withResolvers<void>();

  /** Dies at its call number `diesAt`, from 1; `completesLastCall`: that call is still done, but its answer never comes. */
  constructor(diesAt: number, completesLastCall: boolean) {
    this.#diesAt = diesAt;
    this.#completesLastCall = completesLastCall;
  }

  /** Resolves when it is dead. */
  get died(): Promise<void> {
    return this.#died.promise;
  }

  /** Returns the port, with calls of the named methods counted. */
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
