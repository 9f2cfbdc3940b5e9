/** The scopes that a management key can have. Source: docs/interfaces/account.md "Management keys". */
export const allScopes = [
  'keys:create',
  'keys:read',
  'keys:update',
  'keys:delete',
  'account:read',
  'account:activity',
  'account:balance',
  'account:bodies',
  'limits:read',
  'limits:write',
  'groups:read',
  'groups:write',
  'audit:read',
  'webhooks:read',
  'webhooks:write',
] as const;

/** A scope of a management key. */
export type Scope = (typeof allScopes)[number];
