import { type KeyboardEvent, type ReactNode, useRef, useState } from 'react';

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
  /** The sums of the same steps in the period before, drawn as marks; absent means no marks. */
  readonly before?: readonly bigint[] | undefined;
  /** The index of the bar that the page is filtered by; absent if it is not filtered by one. */
  readonly chosen?: number | undefined;
  readonly format: (value: bigint) => string;
  /** Called with the bar that was clicked, or chosen with the arrow keys and Enter. */
  readonly onPick: (index: number) => void;
  readonly legend?: ReactNode;
}

const high = 40;
const scale = 10_000n;

/** Draws bars on a scale that starts at zero, with a label at its top. Screen readers get the same numbers as a table. */
export function Bars(props: BarsProps) {
  const { bars, before, format, legend } = props;
  const sums = bars.map(({ parts }) => parts.reduce((sum, { value }) => sum + value, 0n));
  const most = [...sums, ...(before ?? [])].reduce((max, sum) => (sum > max ? sum : max), 1n);
  const isEmpty = [...sums, ...(before ?? [])].every(sum => sum === 0n);
  return (
    <figure className="chart">
      <div className="chart-scale" aria-hidden="true">
        <span>{isEmpty ? '' : format(most)}</span>
        <span>{format(0n)}</span>
      </div>
      <Drawing {...props} sums={sums} most={most} />
      <div className="chart-axis" aria-hidden="true">
        <span>{bars[0]?.label}</span>
        <span>{bars[Math.floor(bars.length / 2)]?.label}</span>
        <span>{bars.at(-1)?.label}</span>
      </div>
      {legend}
      <NumbersTable {...props} />
    </figure>
  );
}

interface DrawingProps extends BarsProps {
  readonly sums: readonly bigint[];
  readonly most: bigint;
}

/** Draws the bars. One bar can have the focus; the arrow keys move it. */
function Drawing({ caption, bars, before, chosen, format, onPick, sums, most }: DrawingProps) {
  const drawing = useRef<SVGSVGElement>(null);
  const [focused, setFocused] = useState(bars.length - 1);
  const current = Math.min(focused, bars.length - 1);
  const width = 100 / Math.max(bars.length, 1);
  const move = (to: number): void => {
    const next = Math.max(0, Math.min(bars.length - 1, to));
    setFocused(next);
    drawing.current?.querySelectorAll<SVGGElement>('[role=button]')[next]?.focus();
  };
  const press = (event: KeyboardEvent, index: number): void => {
    const steps: Readonly<Record<string, number>> = {
      ArrowLeft: index - 1,
      ArrowRight: index + 1,
      Home: 0,
      End: bars.length,
    };
    const to = steps[event.key];
    if (to === undefined && event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    if (to === undefined) onPick(index);
    else move(to);
  };
  return (
    <svg ref={drawing} viewBox={`0 0 100 ${high}`} preserveAspectRatio="none" role="group" aria-label={caption}>
      {[0, 1, 2, 3].map(line => (
        <line key={line} x1="0" x2="100" y1={(line * high) / 3} y2={(line * high) / 3} className="grid" />
      ))}
      {bars.map((bar, index) => {
        const earlier = before?.[index] ?? 0n;
        const words = `${bar.label}: ${format(sums[index] ?? 0n)}${before === undefined ? '' : ` (before: ${format(earlier)})`}`;
        const y = high - toHeight(earlier, most);
        return (
          <g
            key={bar.label}
            role="button"
            tabIndex={index === current ? 0 : -1}
            aria-label={words}
            aria-pressed={index === chosen}
            className={chosen === undefined || chosen === index ? 'bar' : 'bar bar-faint'}
            onClick={() => onPick(index)}
            onKeyDown={event => press(event, index)}
          >
            <title>{words}</title>
            <rect className="bar-ground" x={index * width} width={width} y="0" height={high} />
            {stack(bar, most).map(({ series: color, y: top, height }) => (
              <rect
                key={color}
                className={`fill-${color}`}
                x={index * width + width * 0.1}
                width={width * 0.8}
                y={top}
                height={height}
              />
            ))}
            {earlier > 0n && <line className="mark-before" x1={index * width} x2={(index + 1) * width} y1={y} y2={y} />}
          </g>
        );
      })}
    </svg>
  );
}

function NumbersTable({ caption, bars, series, before, format }: BarsProps) {
  return (
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
            {before !== undefined && <th scope="col">the period before</th>}
          </tr>
        </thead>
        <tbody>
          {bars.map((bar, place) => (
            <tr key={bar.label}>
              <th scope="row">{bar.label}</th>
              {series.map((name, index) => (
                <td key={name}>{format(bar.parts.find(part => part.series === index)?.value ?? 0n)}</td>
              ))}
              {before !== undefined && <td>{format(before[place] ?? 0n)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function toHeight(value: bigint, most: bigint): number {
  return (Number((value * scale) / most) / Number(scale)) * high;
}

/** Returns the rectangles of a bar's parts; the tallest bar fills the height. */
function stack({ parts }: Bar, most: bigint): { series: number; y: number; height: number }[] {
  let below = 0n;
  return parts
    .filter(({ value }) => value > 0n)
    .map(({ series, value }) => {
      below += value;
      return { series, y: high - toHeight(below, most), height: toHeight(value, most) };
    });
}
