import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { type Model, ModelSchema } from '../../../gen/tollgate/v1/catalog_pb.ts';
import { priceLines } from './price-lines.ts';

test('a long request has the prices for its length for all its tokens, and no cache price if none is listed', () => {
  const pricing = {
    inputPicoUsd: 1_000_000n,
    outputPicoUsd: 4_000_000n,
    caching: { readPicoUsd: 100_000n },
    above: [{ inputTokens: 1_000, inputPicoUsd: 2_000_000n, outputPicoUsd: 6_000_000n }],
  };
  const model: Model = create(ModelSchema, { pricing });
  const read = (tokens: bigint) => priceLines(model, tokens).map(({ name, pico }) => [name, pico]);
  expect(read(1_000n)).toEqual([
    ['Input', 1_000_000n],
    ['Read from cache', 100_000n],
    ['Output', 4_000_000n],
  ]);
  expect(read(1_001n)).toEqual([
    ['Input', 2_000_000n],
    ['Output', 6_000_000n],
  ]);
});

test('images and searches have a price for each one', () => {
  const model = create(ModelSchema, { pricing: { imageNanoUsd: 20_000_000n } });
  expect(priceLines(model, 0n)).toEqual([{ name: 'Images', pico: 20_000_000_000n, isToken: false }]);
});
