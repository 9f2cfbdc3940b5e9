/** The features of the provider's models, looked up by the provider's name of the model: data instead of code, because models change. Source: ai.google.dev, 2026-11-21. */
export interface ModelTraits {
  /** How thinking is configured: not at all, by a token budget, or by level. */
  readonly thinking: 'none' | 'budget' | 'level';
  /** The accepted budgets. */
  readonly budgetMin: number;
  readonly budgetMax: number;
  /** True if thinking can be disabled. */
  readonly canDisableThinking: boolean;
  /** The accepted levels, from the lowest. */
  readonly levels: readonly ThinkingLevel[];
  /** True if the provider refuses an earlier tool call without its thought signature, unless the call carries the placeholder signature that skips the check. */
  readonly checksSignatures: boolean;
  /** True if a tool's result may contain images and files. */
  readonly mediaInResults: boolean;
  /** True if a request may have both a schema for the answer and tools. */
  readonly schemaWithTools: boolean;
  /** True if a request may have more than one answer. */
  readonly allowsSeveralAnswers: boolean;
}

/** The protocol's levels of thinking. */
export type ThinkingLevel = 'MINIMAL' | 'LOW' | 'MEDIUM' | 'HIGH';

const usual: ModelTraits = {
  thinking: 'budget',
  budgetMin: 1,
  budgetMax: 24_576,
  canDisableThinking: true,
  levels: [],
  checksSignatures: false,
  mediaInResults: false,
  schemaWithTools: false,
  allowsSeveralAnswers: true,
};
const newest: ModelTraits = {
  ...usual,
  thinking: 'level',
  canDisableThinking: false,
  levels: ['MINIMAL', 'LOW', 'MEDIUM', 'HIGH'],
  checksSignatures: true,
  mediaInResults: true,
  schemaWithTools: true,
  allowsSeveralAnswers: false,
};

/** The first pattern that matches the name applies. Names contain versions, dates and words like "preview" and "latest". */
const table: readonly (readonly [names: RegExp, traits: ModelTraits])[] = [
  [/gemini-3-pro/, { ...newest, levels: ['LOW', 'HIGH'] }],
  [/gemini-(?:[3-9][.\d]*-pro|pro-latest)/, { ...newest, levels: ['LOW', 'MEDIUM', 'HIGH'] }],
  [/gemini-(?:[3-9]|flash-latest|flash-lite-latest)/, newest],
  [/gemini-2\.5-pro/, { ...usual, budgetMin: 128, budgetMax: 32_768, canDisableThinking: false }],
  [/gemini-2\.5-flash-lite/, { ...usual, budgetMin: 512 }],
  [/gemini-(?:1|2\.0)|gemma|learnlm/, { ...usual, thinking: 'none' }],
];

/** Returns the traits of a model; an unlisted one is treated as 2.5 Flash. */
export function findTraits(model: string): ModelTraits {
  return table.find(([names]) => names.test(model))?.[1] ?? usual;
}
