/**
 * What an upstream model accepts: data instead of code, because models change. Source: docs/providers.md "Differences between
 * providers".
 */
export interface ModelTraits {
  /** True if `temperature`, `top_p` and `top_k` are accepted. */
  readonly sampling: boolean;
  /** True if `temperature` and `top_p` are accepted together. */
  readonly samplingPair: boolean;
  /** How thinking is configured: by a token budget, or adaptively by effort. */
  readonly thinking: 'budget' | 'effort';
  /** True if `thinking: disabled` is accepted. */
  readonly canDisableThinking: boolean;
  /** True if a call can be forced (`any`, `tool`). */
  readonly forcedToolChoice: boolean;
  /** True if a call can be forced while thinking is on. */
  readonly forcedWhileThinking: boolean;
  /** True if a JSON schema for the answer is accepted. */
  readonly schemas: boolean;
  /**
   * True if a request that ends with tool results must contain the model's earlier reasoning while thinking is on, and must not contain it
   * while thinking is off.
   */
  readonly checksEarlierReasoning: boolean;
}

const usual: ModelTraits = {
  sampling: true,
  samplingPair: true,
  thinking: 'budget',
  canDisableThinking: true,
  forcedToolChoice: true,
  forcedWhileThinking: true,
  schemas: true,
  checksEarlierReasoning: false,
};
const budgeted: ModelTraits = { ...usual, forcedWhileThinking: false, checksEarlierReasoning: true };
const oneOfPair: ModelTraits = { ...budgeted, samplingPair: false };
const adaptive: ModelTraits = { ...usual, sampling: false, thinking: 'effort', forcedWhileThinking: false };
const alwaysThinking: ModelTraits = { ...adaptive, canDisableThinking: false, forcedToolChoice: false };

/** The first pattern that matches the name applies. Names also contain dates, and a prefix if a cloud serves the model. */
const table: readonly (readonly [names: RegExp, traits: ModelTraits])[] = [
  [/claude-(opus-5[.-]5|fable-5[.-]1)/, alwaysThinking],
  // Source: platform.claude.com/docs/en/models/sonnet-5-5/overview, 2026-11-29.
  [/claude-sonnet-5[.-]5/, { ...adaptive, forcedToolChoice: false }],
  [/claude-(opus|sonnet|haiku|fable)-5/, adaptive],
  [/claude-opus-4[.-][789]/, adaptive],
  // Opus 4.1 and the 4.5 models were the first to accept a schema, and to refuse `temperature` together with `top_p`.
  [/claude-(opus|sonnet|haiku)-4[.-][1-9](?!\d)/, oneOfPair],
  [/claude-(?:[123](?!\d)|(?:opus|sonnet)-4|instant)/, { ...budgeted, schemas: false }],
];

/** Returns the traits of a model; an unlisted one accepts everything in the protocol. */
export function findTraits(model: string): ModelTraits {
  return table.find(([names]) => names.test(model))?.[1] ?? usual;
}
