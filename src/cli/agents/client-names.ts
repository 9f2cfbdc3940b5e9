/** The programs that `connect` can configure. In a separate file, so that commands that need only the names do not load the libraries that read settings. */
export const clientNames = [
  'claude-code',
  'codex',
  'opencode',
  'gemini-cli',
  'qwen-code',
  'continue',
  'aider',
  'cline',
  'cursor',
] as const;

/** The name of a program that `connect` can configure. */
export type ClientName = (typeof clientNames)[number];
