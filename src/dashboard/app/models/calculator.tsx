import { TextInput } from '@mantine/core';
import { useState } from 'react';
import type { Model } from '../../../gen/tollgate/v1/catalog_pb.ts';
import { perMillion, perOne } from '../data/money.ts';
import { attoText } from '../request/receipt.ts';
import { type PriceLine, priceLines } from './price-lines.ts';

const amountDigits = 9;
const attoPerPico = 1_000_000n;

function priceText({ pico, isToken }: PriceLine): string {
  return isToken ? `${perMillion(pico)}/M` : perOne(pico);
}

const firstAmounts: Readonly<Record<string, string>> = { Input: '1000', Output: '500', Images: '1', Searches: '1' };

/** Shows the cost of a request with the entered amounts, exactly as it would be charged at the standard tier. */
export function Calculator({ model }: { readonly model: Model }) {
  const [typed, setTyped] = useState(firstAmounts);
  const amount = (name: string): bigint => BigInt(typed[name] || 0);
  const inputs = priceLines(model, 0n).filter(({ name, isToken }) => isToken && name !== 'Output');
  const lines = priceLines(
    model,
    inputs.reduce((sum, { name }) => sum + amount(name), 0n),
  );
  const atto = lines.reduce((sum, { name, pico }) => sum + amount(name) * pico * attoPerPico, 0n);
  if (lines.length === 0) return <p className="quiet">This model has no price.</p>;
  return (
    <>
      <div className="filters">
        {lines.map(line => (
          <TextInput
            className="field"
            key={line.name}
            size="xs"
            label={`${line.name}, ${priceText(line)}`}
            inputMode="numeric"
            value={typed[line.name] ?? '0'}
            onChange={event =>
              setTyped({
                ...typed,
                [line.name]: event.currentTarget.value.replaceAll(/\D/g, '').slice(0, amountDigits),
              })
            }
          />
        ))}
      </div>
      <p className="number">
        {lines
          .filter(({ name }) => amount(name) > 0n)
          .map(line => `${amount(line.name)} × ${priceText(line)}`)
          .join(' + ') || '0'}{' '}
        = <strong>{attoText(atto)}</strong>
      </p>
    </>
  );
}
