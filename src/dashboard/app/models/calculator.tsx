import { TextInput } from '@mantine/core';
import { useState } from 'react';
import type { Model } from '../../../gen/tollgate/v1/catalog_pb.ts';
import { perMillion } from '../data/money.ts';
import { attoText } from '../request/receipt.ts';

const tokensMax = 9;
const attoPerPico = 1_000_000n;

interface Line {
  readonly name: string;
  readonly pico: bigint;
}

/** Returns the prices for a request with that much input. A long request may have other prices for all its tokens. */
function lines({ pricing }: Model, inputTokens: bigint): readonly Line[] {
  const above = pricing?.above.filter(step => inputTokens > BigInt(step.inputTokens)).at(-1);
  const input = above?.inputPicoUsd ?? pricing?.inputPicoUsd;
  const output = above?.outputPicoUsd ?? pricing?.outputPicoUsd;
  const caching = above === undefined ? pricing?.caching : above.caching;
  const named: readonly [string, bigint | undefined][] = [
    ['Input', input],
    ['Read from cache', caching?.readPicoUsd],
    ['Written to cache, 5 min', caching?.write5mPicoUsd],
    ['Written to cache, 1 h', caching?.write1hPicoUsd],
    ['Output', output],
  ];
  return named.flatMap(([name, pico]) => (pico === undefined ? [] : [{ name, pico }]));
}

/** Calculates the cost of a request with the entered tokens, exactly as it would be charged at the standard tier. */
export function Calculator({ model }: { readonly model: Model }) {
  const [tokens, setTokens] = useState<Readonly<Record<string, string>>>({ Input: '1000', Output: '500' });
  const amount = (name: string): bigint => BigInt(tokens[name] === undefined || tokens[name] === '' ? 0 : tokens[name]);
  const inputs = Object.keys(tokens).filter(name => name !== 'Output');
  const priced = lines(
    model,
    inputs.reduce((sum, name) => sum + amount(name), 0n),
  );
  const atto = priced.reduce((sum, { name, pico }) => sum + amount(name) * pico * attoPerPico, 0n);
  if (priced.length === 0) return <p className="quiet">This model has no price per token.</p>;
  return (
    <>
      <div className="filters">
        {priced.map(({ name, pico }) => (
          <TextInput
            className="field"
            key={name}
            size="xs"
            label={`${name}, ${perMillion(pico)}/M`}
            inputMode="numeric"
            value={tokens[name] ?? '0'}
            onChange={event =>
              setTokens({ ...tokens, [name]: event.currentTarget.value.replaceAll(/\D/g, '').slice(0, tokensMax) })
            }
          />
        ))}
      </div>
      <p className="number">
        {priced
          .filter(({ name }) => amount(name) > 0n)
          .map(({ name, pico }) => `${amount(name)} × ${perMillion(pico)}/M`)
          .join(' + ') || '0'}{' '}
        = <strong>{attoText(atto)}</strong>
      </p>
    </>
  );
}
