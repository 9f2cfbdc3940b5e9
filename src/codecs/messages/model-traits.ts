/** What upstream models take, by their own names: data instead of code, because models drift. Source: wire.md B3. */
export interface ModelTraits {
  /** `temperature`, `top_p` and `top_k` are taken. */
  readonly sampling: boolean;
  /** `temperature` and `top_p` are taken together. */
  readonly samplingPair: boolean;
  /** How it is told to think: within a budget, or as it sees fit at an effort. */
  readonly thinking: 'budget' | 'effort';
  /** `thinking: disabled` is taken. */
  readonly canNotThink: boolean;
  /** A call can be forced (`any`, `tool`). */
  readonly forcedToolChoice: boolean;
  /** A call can be forced while it thinks. */
  readonly forcedWhileThinking: boolean;
  /** An answer can be asked for by a schema. */
  readonly schemas: boolean;
  /** While it goes on after results of calls, its own thoughts must be there if it is to think, and must not be there if not. */
  readonly thoughtsInLoops: boolean;
}

const usual: ModelTraits = {
  sampling: true,
  samplingPair: true,
  thinking: 'budget',
  canNotThink: true,
  forcedToolChoice: true,
  forcedWhileThinking: true,
  schemas: true,
  thoughtsInLoops: false,
};
const budgeted: ModelTraits = { ...usual, forcedWhileThinking: false, thoughtsInLoops: true };
const oneOfPair: ModelTraits = { ...budgeted, samplingPair: false };
const adaptive: ModelTraits = { ...usual, sampling: false, thinking: 'effort', forcedWhileThinking: false };
const alwaysThinking: ModelTraits = { ...adaptive, canNotThink: false, forcedToolChoice: false };

/** The first pattern that the name matches holds. Names carry dates and prefixes of the cloud that serves them. */
const table: readonly (readonly [names: RegExp, traits: ModelTraits])[] = [
  [/claude-(opus-5[.-]5|fable-5[.-]1)/, alwaysThinking],
  [/claude-(opus|sonnet|haiku|fable)-5/, adaptive],
  [/claude-opus-4[.-][789]/, adaptive],
  // Opus 4.1 and the models of 4.5 were the first to take a schema, and to refuse `temperature` beside `top_p`.
  [/claude-(opus|sonnet|haiku)-4[.-][1-9](?!\d)/, oneOfPair],
  [/claude-(?:[123](?!\d)|(?:opus|sonnet)-4|instant)/, { ...budgeted, schemas: false }],
];

/** What a model takes; one that the table does not name takes all that the protocol has. */
export function traitsOf(model: string): ModelTraits {
  return table.find(([names]) => names.test(model))?.[1] ?? usual;
}
