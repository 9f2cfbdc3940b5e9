/** A process that dies at a chosen moment: from then on its calls have no effect and never return. */
export class Mortal {
  /** How many calls it has made. */
  calls = 0;
  readonly #diesAt: number;
  readonly #doesLast: boolean;
  readonly #died = Promise.withResolvers<void>();

  /** Dies at its call number `diesAt`, from 1; `doesLast`: that call is still done, but its answer never comes. */
  constructor(diesAt: number, doesLast: boolean) {
    this.#diesAt = diesAt;
    this.#doesLast = doesLast;
  }

  /** Resolves when it is dead. */
  get died(): Promise<void> {
    return this.#died.promise;
  }

  /** Returns the port, with calls of the named methods counted. */
  port<Port extends object>(port: Port, methods: readonly (keyof Port & string)[]): Port {
    return new Proxy(port, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name, target);
        if (typeof member !== 'function') return member;
        const call = (...values: unknown[]): unknown => Reflect.apply(member, target, values);
        return methods.some(each => each === name) ? (...values: unknown[]) => this.#counted(call, values) : call;
      },
    });
  }

  async #counted(call: (...values: unknown[]) => unknown, values: unknown[]): Promise<unknown> {
    this.calls += 1;
    const number = this.calls;
    if (number < this.#diesAt) return call(...values);
    if (number === this.#diesAt && this.#doesLast) await call(...values);
    this.#died.resolve();
    return Promise.withResolvers<unknown>().promise;
  }
}
