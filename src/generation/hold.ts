/**
 * The proof that a request was admitted and its funds are held. Upstreams take one, so that a path that forgets admission does
 * not compile; only `Hold.of` makes one, and only the core calls it, with the ledger's reply in hand.
 */
export class Hold {
  /** The request's id in the ledger. */
  readonly id: number;
  /** The account of the request; undefined: unknown. */
  readonly accountId: number | undefined;

  private constructor(id: number, accountId: number | undefined) {
    this.id = id;
    this.accountId = accountId;
  }

  static of({ id, accountId }: { readonly kind: 'admitted'; readonly id: number; readonly accountId?: number }): Hold {
    return new Hold(id, accountId);
  }
}
