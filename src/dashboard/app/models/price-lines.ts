import type { Model, Pricing } from '../../../gen/tollgate/v1/catalog_pb.ts';

const picoPerNano = 1_000n;

/** The prices per piece. The price of a tool's call is no such price. */
type PiecePrice = Exclude<Extract<keyof Pricing, `${string}NanoUsd`>, 'toolNanoUsd'>;

/** A kind of thing that a request is charged for. */
export interface PriceLine {
  readonly name: string;
  /** The price of one token, image or search, in pico-dollars. */
  readonly pico: bigint;
  /** Whether these are tokens, whose price is shown per million. */
  readonly isToken: boolean;
}

/**
 * Returns the things that a request to a model is charged for, with their prices at the standard tier. `inputTokens` counts the whole
 * request's, because a long request may have other prices for all its tokens. The price of an image is that of the default size and quality.
 */
export function priceLines({ pricing }: Pick<Model, 'pricing'>, inputTokens: bigint): readonly PriceLine[] {
  const above = pricing?.above.filter(step => inputTokens > BigInt(step.inputTokens)).at(-1);
  const caching = above === undefined ? pricing?.caching : above.caching;
  const tokens: readonly [string, bigint | undefined][] = [
    ['Input', above?.inputPicoUsd ?? pricing?.inputPicoUsd],
    ['Read from cache', caching?.readPicoUsd],
    ['Written to cache, 5 min', caching?.write5mPicoUsd],
    ['Written to cache, 30 min', caching?.write30mPicoUsd],
    ['Written to cache, 1 h', caching?.write1hPicoUsd],
    ['Written to cache, 12 h', caching?.write12hPicoUsd],
    ['Output', above?.outputPicoUsd ?? pricing?.outputPicoUsd],
    ['Text for an image', pricing?.imageTokens?.textInputPicoUsd],
    ['Image as input', pricing?.imageTokens?.imageInputPicoUsd],
    ['Cached input', pricing?.imageTokens?.cachedInputPicoUsd],
    ['Drawn image', pricing?.imageTokens?.outputPicoUsd],
  ];
  // The type requires all, so that a new price does not compile without its name.
  const pieces: Readonly<Record<PiecePrice, readonly [string, bigint | undefined]>> = {
    imageNanoUsd: ['Images', pricing?.imageNanoUsd],
    searchNanoUsd: ['Searches', pricing?.searchNanoUsd],
  };
  return [
    ...tokens.flatMap(([name, pico]) => (pico === undefined ? [] : [{ name, pico, isToken: true }])),
    ...Object.values(pieces).flatMap(([name, nano]) =>
      nano === undefined ? [] : [{ name, pico: nano * picoPerNano, isToken: false }],
    ),
  ];
}
