/** The programs that `connect` points at the gateway. Apart from their settings, so that no other command loads the libraries that read those. */
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
