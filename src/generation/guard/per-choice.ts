/**
 * A state for each choice of an answer, created when the choice first appears. Choice 0, the only one of most answers, needs no look-up.
 */
export class PerChoice<State, Context> {
  readonly #make: (choice: number, context: Context) => State;
  readonly #context: Context;
  #first: State | undefined;
  #others: Map<number, State> | undefined;

  /** `make` gets `context`, so that it can be the same function for all answers. */
  constructor(make: (choice: number, context: Context) => State, context: Context) {
    this.#make = make;
    this.#context = context;
  }

  /** Returns the state of a choice. */
  get(choice: number): State {
    if (choice === 0) return (this.#first ??= this.#make(0, this.#context));
    this.#others ??= new Map();
    let state = this.#others.get(choice);
    if (state === undefined) {
      state = this.#make(choice, this.#context);
      this.#others.set(choice, state);
    }
    return state;
  }

  /** Returns all states so far, in no particular order. */
  all(): State[] {
    if (this.#others === undefined) return this.#first === undefined ? [] : [this.#first];
    const others = [...this.#others.values()];
    return this.#first === undefined ? others : [this.#first, ...others];
  }

  /** Returns whether the condition holds for at least one state. */
  some(condition: (state: State) => boolean): boolean {
    if (this.#first !== undefined && condition(this.#first)) return true;
    return this.#others?.values().some(condition) ?? false;
  }
}
