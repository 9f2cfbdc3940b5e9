/** The features of upstream models, by their own names: data instead of code, because models change. Source: ai.google.dev, 2026-11-21. */
export interface ModelTraits {
  /** How thinking is configured: not at all, by a token budget, or by level. */
  readonly thinking: 'none' | 'budget' | 'level';
  /** Budgets that are taken. */
  readonly budgetMin: number;
  readonly budgetMax: number;
  /** Thinking can be switched off. */
  readonly canNotThink: boolean;
  /** Levels that are taken, from the lowest. */
  readonly levels: readonly ThinkingLevel[];
  /** A call in the history without its signature is refused, unless the check is switched off for it. */
  readonly checksSignatures: boolean;
  /** Images and files may be inside a tool's result. */
  readonly mediaInResults: boolean;
  /** A schema for the answer and tools may be combined. */
  readonly schemaWithTools: boolean;
  /** More than one answer to a request. */
  readonly candidates: boolean;
}

/** The protocol's levels of thinking. */
export type ThinkingLevel = 'MINIMAL' | 'LOW' | 'MEDIUM' | 'HIGH';

const usual: ModelTraits = {
  thinking: 'budget',
  budgetMin: 1,
  budgetMax: 24_576,
  canNotThink: true,
  levels: [],
  checksSignatures: false,
  mediaInResults: false,
  schemaWithTools: false,
  candidates: true,
};
const newest: ModelTraits = {
  ...usual,
  thinking: 'level',
  canNotThink: false,
  levels: ['MINIMAL', 'LOW', 'MEDIUM', 'HIGH'],
  checksSignatures: true,
  mediaInResults: true,
  schemaWithTools: true,
  candidates: false,
};

/** The first pattern that the name matches holds. Names carry versions, dates and words like "preview" and "latest". */
const table: readonly (readonly [names: RegExp, traits: ModelTraits])[] = [
  [/gemini-3-pro/, { ...newest, levels: ['LOW', 'HIGH'] }],
  [/gemini-(?:[3-9][.\d]*-pro|pro-latest)/, { ...newest, levels: ['LOW', 'MEDIUM', 'HIGH'] }],
  [/gemini-(?:[3-9]|flash-latest|flash-lite-latest)/, newest],
  [/gemini-2\.5-pro/, { ...usual, budgetMin: 128, budgetMax: 32_768, canNotThink: false }],
  [/gemini-2\.5-flash-lite/, { ...usual, budgetMin: 512 }],
  [/gemini-(?:1|2\.0)|gemma|learnlm/, { ...usual, thinking: 'none' }],
];

/** Returns the traits of a model; an unlisted one is treated as one of the 2.5 family. */
export function findTraits(model: string): ModelTraits {
  return table.find(([names]) => names.test(model))?.[1] ?? usual;
}
