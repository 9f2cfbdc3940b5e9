/**
 * The port of documents: prompts, answers and tasks, stored as bytes that only the service that stored them interprets. They are limited in
 * size, and losing them changes no balance, so they are never part of the ledger.
 * Times in ms since 1970 UTC.
 */

/** The kinds of documents. */
export type DocumentKind =
  | 'response'
  | 'replay'
  | 'image_task'
  | 'conversation'
  | 'file'
  | 'hidden_file'
  | 'batch'
  | 'message_batch'
  | 'bodies';

/** A document's name: ids are unique within a kind, over all accounts. */
export interface DocumentName {
  readonly kind: DocumentKind;
  readonly id: string;
}

/** A document's facts without its bytes. */
export interface DocumentFacts extends DocumentName {
  readonly accountId: number;
  /** Absent if no API key owns it. */
  readonly apiKeyId?: number;
  /** A state that the service that stores the document defines. */
  readonly state: string;
  /** True if nothing is under way: it may be evicted if space is short, but replays, files and batches stay until they expire. */
  readonly finished: boolean;
  readonly createdAtMs: number;
  /** The document expires then: it is no longer found. */
  readonly endsAtMs: number;
}

/** A document with its bytes. */
export interface StoredDocument extends DocumentFacts {
  readonly body: Uint8Array;
}

/** One piece of a document's log. */
export interface Chunk {
  /** Sequence number, chosen by the service that writes it; it increases within a document. */
  readonly seq: number;
  readonly content: Uint8Array;
}

/** A document to be stored. */
export interface NewDocument extends DocumentFacts {
  readonly body: Uint8Array;
  /**
   * The document of the same kind and account that this one continues. If that is deleted, it stays stored, hidden, as long as this one
   * exists.
   */
  readonly parentId?: string;
  /** The beginning of its log. */
  readonly chunks?: readonly Chunk[];
}

/** A change of a document; absent fields do not change. */
export interface DocumentChange extends DocumentName {
  /** Makes the change only if the document is in this state. */
  readonly ifState?: string;
  readonly state?: string;
  readonly finished?: boolean;
  readonly endsAtMs?: number;
  readonly body?: Uint8Array;
  /** Chunks to append to its log. Throws `internal` if a sequence number exists already. */
  readonly chunks?: readonly Chunk[];
}

/**
 * All commands are durable when their promise resolves, and run in the order in which they were given. They throw `GatewayError`
 * `overloaded` if storage fails (the command has then done nothing, unless the disk failed midway, which can't be known) or has no room for
 * a running document.
 */
export interface Documents {
  /**
   * Stores a document. `exists`: a document of that name is stored already, and is returned; an expired one is replaced. `no_parent`:
   * the parent does not exist any more. Neither stores anything.
   */
  put(document: NewDocument): Promise<PutOutcome>;
  /** Changes a document. `other_state`: it is not in `ifState`. */
  update(change: DocumentChange): Promise<'updated' | 'not_found' | 'other_state'>;
  /** Hides a document at once; its bytes are removed when nothing continues it. */
  delete(name: DocumentName): Promise<'deleted' | 'not_found'>;
  /** Returns the document; with an account, only if it is the owner. Undefined if it does not exist or has ended. */
  find(name: DocumentName, accountId?: number): Promise<StoredDocument | undefined>;
  /**
   * Returns the document with all that it continues, the first one first; undefined if `find` would return undefined. The
   * continued ones may have expired.
   */
  chain(name: DocumentName, accountId: number): Promise<StoredDocument[] | undefined>;
  /**
   * Returns the log's chunks whose numbers are above `after`, at most `limit` of them and about a megabyte, in order;
   * empty if there are none.
   */
  chunks(name: DocumentName, after: number, limit: number): Promise<Chunk[]>;
  /** Returns the unfinished documents of a kind, oldest first: at start-up, those that an earlier process left behind. */
  unfinished(kind: DocumentKind): Promise<DocumentFacts[]>;
  /** Returns a page of an account's documents of a kind, by time of creation; undefined if the document named by `after` does not exist. */
  list(page: DocumentPage): Promise<StoredDocument[] | undefined>;
  /** Writes what is queued, then closes. */
  close(): Promise<void>;
}

/** Selects documents of an account. */
export interface DocumentPage {
  readonly kind: DocumentKind;
  readonly accountId: number;
  readonly order: 'oldest_first' | 'newest_first';
  /** The id of the document after which the page starts; absent: it starts with the first one. */
  readonly after?: string | undefined;
  readonly limit: number;
}

/** The result of a `put`. */
export type PutOutcome =
  | { readonly kind: 'stored' }
  | { readonly kind: 'exists'; readonly document: StoredDocument }
  | { readonly kind: 'no_parent' };
