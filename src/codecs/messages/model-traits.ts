/**
 * The features of upstream models, by their own names: data instead of code, because models change. Source: docs/interfaces/messages.md
 * "Stream".
 */
export interface ModelTraits {
  /** `temperature`, `top_p` and `top_k` are taken. */
  readonly sampling: boolean;
  /** `temperature` and `top_p` are taken together. */
  readonly samplingPair: boolean;
  /** How thinking is configured: by a budget, or adaptively by effort. */
  readonly thinking: 'budget' | 'effort';
  /** `thinking: disabled` is taken. */
  readonly canNotThink: boolean;
  /** A call can be forced (`any`, `tool`). */
  readonly forcedToolChoice: boolean;
  /** A call can be forced while it thinks. */
  readonly forcedWhileThinking: boolean;
  /** The answer can be constrained by a schema. */
  readonly schemas: boolean;
  /**
   * When it continues after results of calls, its own reasoning must be present if thinking is on, and absent if it
   * is off.
   */
  readonly reasonsInLoops: boolean;
}

const usual: ModelTraits = {
  sampling: true,
  samplingPair: true,
  thinking: 'budget',
  canNotThink: true,
  forcedToolChoice: true,
  forcedWhileThinking: true,
  schemas: true,
  reasonsInLoops: false,
};
const budgeted: ModelTraits = { ...usual, forcedWhileThinking: false, reasonsInLoops: true };
const oneOfPair: ModelTraits = { ...budgeted, samplingPair: false };
const adaptive: ModelTraits = { ...usual, sampling: false, thinking: 'effort', forcedWhileThinking: false };
const alwaysThinking: ModelTraits = { ...adaptive, canNotThink: false, forcedToolChoice: false };

/** The first pattern that the name matches holds. Names carry dates and prefixes of the cloud that serves them. */
const table: readonly (readonly [names: RegExp, traits: ModelTraits])[] = [
  [/claude-(opus-5[.-]5|fable-5[.-]1)/, alwaysThinking],
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
