import { createReadStream } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { createGunzip } from 'node:zlib';
import type { JsonObject } from '../../src/codecs/codec.ts';

/** The protocols whose answers have text. */
export const playedProtocols = ['chat', 'responses', 'messages', 'gemini', 'completions'] as const;
/** A protocol of a recorded exchange. */
export type PlayedProtocol = (typeof playedProtocols)[number];

/** A request and an answer that were recorded with a real provider. */
export interface Exchange {
  readonly id: string;
  readonly source: string;
  /** '' if it is not known. */
  readonly provider: string;
  readonly protocol: PlayedProtocol;
  readonly status: number;
  readonly stream: boolean;
  /** Null if only the answer was recorded. */
  readonly request: JsonObject | null;
  /** The answer as text; a stream with all its events. */
  readonly body: string;
}

/** Reads the exchanges with an answer that has text, from all `.jsonl` and `.jsonl.gz` files of a folder. */
export async function* readExchanges(folder: string): AsyncGenerator<Exchange> {
  const names = (await readdir(folder)).filter(name => /\.jsonl(\.gz)?$/.test(name)).toSorted();
  for (const name of names) {
    const file = createReadStream(join(folder, name));
    const lines = createInterface({ input: name.endsWith('.gz') ? file.pipe(createGunzip()) : file });
    for await (const line of lines) {
      const exchange = JSON.parse(line) as Exchange;
      if (exchange.status < 400 && playedProtocols.includes(exchange.protocol)) yield exchange;
    }
  }
}
