import { setImmediate as nextTurn } from 'node:timers/promises';
import { GatewayError, toGatewayError } from '../../errors/gateway-error.ts';
import type { BatchFault } from '../../gen/tollgate/v1/batch_pb.ts';
import type { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import type { BatchCodec } from '../../generation/batches/batch-codec.ts';
import { readLines } from '../../lib/lines.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { BulkFiles } from '../../store/bulk-files.ts';
import { noSuchFile, readPieces } from './files.ts';

/** The options of reading lines. */
export interface LineDependencies {
  readonly bulk: BulkFiles;
  readonly codec: BatchCodec;
  readonly runtime: Pick<Runtime, 'monotonicMs'>;
  /** Returns the most bytes of a line, which is the limit of a request body. */
  readonly lineBytesMax: () => number;
}

/** A non-blank line of an input file, with its number. */
export interface NumberedLine {
  /** Its index among the items, from 0. */
  readonly item: number;
  /** Its line number in the file, from 1. */
  readonly line: number;
  readonly bytes: Buffer;
}

/** The most items of a batch. Source: docs/interfaces/files-and-batches.md "OpenAI's batches". */
const itemsMax = 50_000;
/** The most faults that are reported. */
const faultsMax = 100;
/** How long lines are checked before the event loop gets a turn. */
const turnMs = 5;

/**
 * Yields the non-blank lines of a file. A longer line is cut off at `lineBytesMax` bytes. Throws `not_found` if the file is missing.
 */
export async function* readItems(
  { bulk }: Pick<LineDependencies, 'bulk'>,
  name: string,
  lineBytesMax = Infinity,
): AsyncGenerator<NumberedLine, void, undefined> {
  const reader = await bulk.open(name);
  if (reader === undefined) throw noSuchFile('input_file_id');
  let line = 0;
  let item = 0;
  for await (const bytes of readLines(readPieces(reader), lineBytesMax)) {
    line += 1;
    if (bytes.toString('latin1', 0, 64).trim() === '' && bytes.toString('latin1').trim() === '') continue;
    yield { item, line, bytes };
    item += 1;
  }
}

/** Checks all lines of a file before any item runs. Returns the number of items, and the first faults. */
export async function checkLines(
  dependencies: LineDependencies,
  name: string,
  endpoint: Endpoint,
): Promise<{ readonly total: number; readonly faults: BatchFault[] }> {
  const { codec, runtime, lineBytesMax } = dependencies;
  const faults: BatchFault[] = [];
  const seen = new Map<string, number>();
  let total = 0;
  let turnAtMs = runtime.monotonicMs();
  for await (const { line, bytes } of readItems(dependencies, name, lineBytesMax() + 1)) {
    total += 1;
    if (total > itemsMax)
      return { total, faults: [fault('too_many_lines', `The file has more than ${itemsMax} lines.`)] };
    try {
      if (bytes.length > lineBytesMax()) throw tooLong(lineBytesMax());
      const { customId } = await codec.readLine(bytes, endpoint, true);
      const first = seen.get(customId);
      if (first !== undefined) throw duplicate(first);
      seen.set(customId, line);
    } catch (thrown) {
      if (faults.length < faultsMax) faults.push(toFault(toGatewayError(thrown), line));
    }
    if (runtime.monotonicMs() - turnAtMs < turnMs) continue;
    await nextTurn();
    turnAtMs = runtime.monotonicMs();
  }
  if (total === 0) faults.push(fault('empty_file', 'The file has no lines.'));
  return { total, faults };
}

function tooLong(max: number): GatewayError {
  return new GatewayError('validation_error', `The line is longer than ${max} bytes.`);
}

function duplicate(first: number): GatewayError {
  const message = `custom_id is already used in line ${first}; each must be unique.`;
  return new GatewayError('validation_error', message, { param: 'custom_id', detailCode: 'duplicate_custom_id' });
}

function toFault({ code, message, facts }: GatewayError, line: number): BatchFault {
  const isNoJson = code === 'invalid_request';
  const word = facts.detailCode ?? (isNoJson ? 'invalid_json_line' : 'invalid_line');
  return { ...fault(word, message), line, param: facts.param ?? '' };
}

function fault(code: string, message: string): BatchFault {
  return { $typeName: 'tollgate.v1.BatchFault', code, message, param: '' };
}
