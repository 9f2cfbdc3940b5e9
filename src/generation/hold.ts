/**
 * The proof that a request was admitted and its funds are held. Upstreams require one, so that code without an admission does not compile. Only `Hold.of` makes one, and only the core calls that, with the ledger's reply.
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
