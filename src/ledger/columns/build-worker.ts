import { workerData } from 'node:worker_threads';
import { openForReading } from '../../lib/sqlite/database.ts';
import { ColumnBuilder } from './build.ts';
import { ColumnStore, findColumnsFolder } from './column-store.ts';

/** The data that the thread starts with. */
export interface BuildData {
  /** The path of the ledger's file. */
  readonly path: string;
  readonly nowMs: number;
  /** True to compare all files with the ledger, false to compare only recent ones. */
  readonly checksAll: boolean;
}

const { path, nowMs, checksAll } = workerData as BuildData;
const db = openForReading(path);
try {
  new ColumnBuilder(db, new ColumnStore(findColumnsFolder(path))).run(nowMs, checksAll);
} finally {
  db.close();
}
