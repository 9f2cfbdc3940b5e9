/**
 * The proof that a request was admitted and its funds are held. Upstreams take one, so that a path that forgets admission does
 * not compile; only `Hold.of` makes one, and only the core calls it, with the ledger's reply in hand.
 */
export class Hold {
  /** The request's id in the ledger. */
  readonly id: number;

  private constructor(id: number) {
    this.id = id;
  }

  static of(admitted: { readonly kind: 'admitted'; readonly id: number }): Hold {
    return new Hold(admitted.id);
  }
}
