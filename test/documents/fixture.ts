import type { Documents, NewDocument } from '../../src/store/documents.ts';
import { openSqliteDocuments } from '../../src/store/sqlite/documents/sqlite-documents.ts';
import { temporaryDirectory, TestClock } from '../ledger/fixture.ts';

/** Shared parts of the document tests: a document store in a temporary directory, and functions that make documents. */

export const dayMs = 86_400_000;

/** Returns the bytes of a text. */
export function toBytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** Returns the text of bytes. */
export function toText(bytes: Uint8Array | undefined): string | undefined {
  return bytes === undefined ? undefined : new TextDecoder().decode(bytes);
}

/** Documents in a temporary directory, with a clock that the test sets. */
export interface DocumentFixture {
  readonly clock: TestClock;
  readonly dataDir: string;
  documents: Documents;
  /** Returns a finished response of account 1 that ends in 30 days. */
  make(id: string, change?: Partial<NewDocument>): NewDocument;
  reopen(): Promise<void>;
  end(): Promise<void>;
}

/** Opens a document store for a test. `bytesMax`: the space for all documents. */
export async function openDocumentFixture(bytesMax = 100_000_000): Promise<DocumentFixture> {
  const directory = temporaryDirectory();
  const clock = new TestClock();
  const open = (): Promise<Documents> => openSqliteDocuments({ dataDir: directory.path, clock, bytesMax });
  const fixture: DocumentFixture = {
    clock,
    dataDir: directory.path,
    documents: await open(),
    make: (id, change = {}) => ({
      kind: 'response',
      id,
      accountId: 1,
      state: 'completed',
      finished: true,
      createdAtMs: clock.now(),
      endsAtMs: clock.now() + 30 * dayMs,
      body: toBytes(id),
      ...change,
    }),
    async reopen() {
      await fixture.documents.close();
      fixture.documents = await open();
    },
    async end() {
      await fixture.documents.close();
      directory.remove();
    },
  };
  return fixture;
}
