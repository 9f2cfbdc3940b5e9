/** What upstream models take, by their own names: data instead of code, because models drift. Source: ai.google.dev, 2026-11-21. */
export interface ModelTraits {
  /** How it is told to think: not at all, within a budget of tokens, or at a level. */
  readonly thinking: 'none' | 'budget' | 'level';
  /** Budgets that are taken. */
  readonly budgetMin: number;
  readonly budgetMax: number;
  /** It can be told not to think. */
  readonly canNotThink: boolean;
  /** Levels that are taken, from the lowest. */
  readonly levels: readonly ThinkingLevel[];
  /** A call in the history without its signature is refused, unless the check is switched off for it. */
  readonly checksSignatures: boolean;
  /** Pictures and files may stand inside of a tool's result. */
  readonly mediaInResults: boolean;
  /** An answer by a schema and tools may be asked for together. */
  readonly schemaWithTools: boolean;
  /** More than one answer to a request. */
  readonly candidates: boolean;
}

/** How hard a model thinks, in the words of the protocol. */
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

/** What a model takes; one that the table does not name is taken for one of the 2.5 family. */
export function traitsOf(model: string): ModelTraits {
  return table.find(([names]) => names.test(model))?.[1] ?? usual;
}
