/**
 * A state for each choice of an answer, created when the choice first appears. Choice 0, the only one of most answers, needs no look-up.
 */
export class PerChoice<State> {
  readonly #make: (choice: number) => State;
  #first: State | undefined;
  #others: Map<number, State> | undefined;

  constructor(make: (choice: number) => State) {
    this.#make = make;
  }

  /** Returns the state of a choice. */
  get(choice: number): State {
    if (choice === 0) return (this.#first ??= this.#make(0));
    this.#others ??= new Map();
    let state = this.#others.get(choice);
    if (state === undefined) {
      state = this.#make(choice);
      this.#others.set(choice, state);
    }
    return state;
  }

  /** Returns all states so far, in no particular order. */
  all(): State[] {
    const others = this.#others === undefined ? [] : [...this.#others.values()];
    return this.#first === undefined ? others : [this.#first, ...others];
  }
}
