import type { ReactNode } from 'react';

/** One bar, with its parts from the bottom up. */
export interface Bar {
  readonly label: string;
  readonly parts: readonly { readonly series: number; readonly value: bigint }[];
}

interface BarsProps {
  readonly caption: string;
  readonly bars: readonly Bar[];
  /** The names of the series, in the order of their colours. */
  readonly series: readonly string[];
  readonly format: (value: bigint) => string;
  /** Called when a bar is clicked; absent if bars are not clickable. */
  readonly onPick?: (index: number) => void;
  readonly legend?: ReactNode;
}

const high = 40;
const scale = 10_000n;

/** Draws bars on a scale that starts at zero, with a label at its top. Screen readers get the same numbers as a table. */
export function Bars({ caption, bars, series, format, onPick, legend }: BarsProps) {
  const sums = bars.map(({ parts }) => parts.reduce((sum, { value }) => sum + value, 0n));
  const most = sums.reduce((max, sum) => (sum > max ? sum : max), 1n);
  const width = 100 / Math.max(bars.length, 1);
  const isEmpty = sums.every(sum => sum === 0n);
  return (
    <figure className="chart">
      <div className="chart-scale" aria-hidden="true">
        <span>{isEmpty ? '' : format(most)}</span>
        <span>{format(0n)}</span>
      </div>
      <svg viewBox={`0 0 100 ${high}`} preserveAspectRatio="none" aria-hidden="true">
        {[0, 1, 2, 3].map(line => (
          <line key={line} x1="0" x2="100" y1={(line * high) / 3} y2={(line * high) / 3} className="grid" />
        ))}
        {bars.map((bar, index) => (
          <g key={bar.label} onClick={() => onPick?.(index)} style={onPick && { cursor: 'pointer' }}>
            <title>{`${bar.label}: ${format(sums[index] ?? 0n)}`}</title>
            <rect x={index * width} width={width} y="0" height={high} fill="transparent" />
            {stack(bar, most).map(({ series: color, y, height }) => (
              <rect
                key={color}
                className={`fill-${color}`}
                x={index * width + width * 0.1}
                width={width * 0.8}
                y={y}
                height={height}
              />
            ))}
          </g>
        ))}
      </svg>
      <div className="chart-axis" aria-hidden="true">
        <span>{bars[0]?.label}</span>
        <span>{bars[Math.floor(bars.length / 2)]?.label}</span>
        <span>{bars.at(-1)?.label}</span>
      </div>
      {legend}
      <div className="visually-hidden">
        <table>
          <caption>{caption}</caption>
          <thead>
            <tr>
              <th scope="col">Period</th>
              {series.map(name => (
                <th scope="col" key={name}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {bars.map(bar => (
              <tr key={bar.label}>
                <th scope="row">{bar.label}</th>
                {series.map((name, index) => (
                  <td key={name}>{format(bar.parts.find(part => part.series === index)?.value ?? 0n)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </figure>
  );
}

/** Returns the rectangles of a bar's parts; the tallest bar fills the height. */
function stack({ parts }: Bar, most: bigint): { series: number; y: number; height: number }[] {
  let below = 0n;
  return parts
    .filter(({ value }) => value > 0n)
    .map(({ series, value }) => {
      below += value;
      const share = (part: bigint): number => (Number((part * scale) / most) / Number(scale)) * high;
      return { series, y: high - share(below), height: share(value) };
    });
}
