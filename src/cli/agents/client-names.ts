/** The programs that `connect` points at the gateway. In a file of their own, so that commands which only need the names do not load the libraries that read settings. */
export const clientNames = [
  'claude-code',
  'codex',
  'opencode',
  'qwen-code',
  'continue',
  'aider',
  'cline',
  'cursor',
] as const;

/** One of them. */
export type ClientName = (typeof clientNames)[number];
