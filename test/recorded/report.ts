import type { Difference } from './compare.ts';
import type { Exchange } from './exchange.ts';
import type { Play } from './play.ts';

interface Count {
  plays: number;
  equal: number;
}

interface Cause {
  plays: number;
  readonly providers: Set<string>;
  readonly ids: Set<string>;
}

/** Counts plays by provider and by pair of protocols, and the causes of their differences. */
export class Report {
  #exchanges = 0;
  #skipped = 0;
  readonly #all: Count = { plays: 0, equal: 0 };
  readonly #byWay = new Map<string, Count>();
  readonly #byProvider = new Map<string, Count>();
  readonly #causes = new Map<string, Cause>();

  /** `plays`: undefined if the exchange has no answer to compare. */
  add({ id, provider }: Pick<Exchange, 'id' | 'provider'>, plays: readonly Play[] | undefined): void {
    if (plays === undefined) {
      this.#skipped += 1;
      return;
    }
    this.#exchanges += 1;
    for (const { way, differences } of plays) {
      const isEqual = differences.length === 0;
      for (const count of [this.#all, countIn(this.#byWay, way), countIn(this.#byProvider, provider || 'unnamed')]) {
        count.plays += 1;
        if (isEqual) count.equal += 1;
      }
      if (!isEqual) this.#addCause(nameCause(way, differences), { id, provider });
    }
  }

  /** The share of plays that came out equal, from 0 to 1. */
  get share(): number {
    return this.#all.plays === 0 ? 1 : this.#all.equal / this.#all.plays;
  }

  /** Returns the report: rates, and the causes of differences, most frequent first. */
  text(): string {
    const lines = [
      `${this.#exchanges} exchanges, ${this.#skipped} without an answer to compare; ${rate(this.#all)}`,
      '',
      ...[...this.#byWay].map(([way, count]) => `${way.padEnd(36)} ${rate(count)}`),
      '',
      ...byLoss(this.#byProvider).map(([provider, count]) => `${provider.padEnd(36)} ${rate(count)}`),
      '',
      ...[...this.#causes]
        .toSorted(([, a], [, b]) => b.plays - a.plays)
        .map(([name, { plays, providers, ids }]) => {
          return `${String(plays).padStart(6)} ${name} (${[...providers].slice(0, 4).join(', ')}; ${ids.size}: ${[...ids].slice(0, 3).join(' ')})`;
        }),
    ];
    return `${lines.join('\n')}\n`;
  }

  #addCause(name: string, { id, provider }: { readonly id: string; readonly provider: string }): void {
    const cause = this.#causes.get(name) ?? { plays: 0, providers: new Set(), ids: new Set() };
    cause.plays += 1;
    cause.providers.add(provider);
    cause.ids.add(id);
    this.#causes.set(name, cause);
  }
}

function countIn(counts: Map<string, Count>, name: string): Count {
  const count = counts.get(name) ?? { plays: 0, equal: 0 };
  counts.set(name, count);
  return count;
}

function rate({ plays, equal }: Count): string {
  return `${equal} of ${plays} equal (${((100 * equal) / Math.max(1, plays)).toFixed(2)} %)`;
}

function byLoss(counts: Map<string, Count>): [string, Count][] {
  return [...counts].toSorted(([, a], [, b]) => b.plays - b.equal - (a.plays - a.equal));
}

/** Returns the cause of differences: what was refused or failed, or which facts differ, whatever the client's protocol. */
function nameCause(way: string, differences: readonly Difference[]): string {
  const [first] = differences;
  const from = way.split(' -> ')[0] ?? way;
  if (first?.what === 'refused' || first?.what === 'failed') {
    return `${from}: ${first.what}: ${String(first.got).replaceAll(/\d+/g, 'N').slice(0, 110)}`;
  }
  return `${from}: ${differences.map(({ what }) => what).join(', ')}`;
}
