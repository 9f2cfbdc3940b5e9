import {
  changeErrors,
  type Operation,
  pageQuery,
  pathId,
  pathNumber,
  query,
  readErrors,
  type Parameter,
} from '../operation.ts';
import { account, groupSettings, keySettings, limitChange, newLimit, ownKey, rotation } from '../shapes/account.ts';
import { usage } from '../shapes/usage.ts';

/** The account's paths, for management keys, and the paths of a key's holder. */

const keyId = pathNumber('key_id', 'The key.');
const limitId = pathNumber('limit_id', 'The limit.');
const groupId = pathNumber('group_id', 'The group.');
const done = { 200: { description: 'Done.', schema: account.message } };

const keys: readonly Operation[] = [
  {
    method: 'get',
    path: '/v1/account/keys',
    id: 'listKeys',
    tag: 'Keys',
    summary: 'List the keys',
    access: { scope: 'keys:read' },
    parameters: [
      ...pageQuery,
      query('q', 'Only keys whose label contains this text.'),
      query('group_id', 'Only keys of this group.', { type: 'integer', minimum: 1 }),
    ],
    answers: { 200: { description: 'A page of keys, masked.', schema: account.keys } },
    errors: readErrors,
  },
  {
    method: 'post',
    path: '/v1/account/keys',
    id: 'createKey',
    tag: 'Keys',
    summary: 'Create a key',
    description: 'The full key is in this answer only.',
    access: { scope: 'keys:create' },
    body: {
      schema: keySettings,
      examples: {
        plain: { summary: 'A key without limits', value: { label: 'laptop' } },
        limited: {
          summary: 'A key with limits and money of its own',
          value: {
            label: 'team search',
            daily_limit: 5,
            minute_limit: 60,
            balance: 0.25,
            allowed_models: ['sim/small'],
            expires_at: '2100-01-01T00:00:00Z',
            tags: { team: 'search' },
            metadata: { contract: 17 },
          },
        },
      },
    },
    answers: { 200: { description: 'The key, in full.', schema: account.key } },
    errors: changeErrors,
  },
  {
    method: 'get',
    path: '/v1/account/keys/{key_id}',
    id: 'getKey',
    tag: 'Keys',
    summary: 'Read a key',
    access: { scope: 'keys:read' },
    parameters: [keyId],
    answers: { 200: { description: 'The key, masked.', schema: account.key } },
    errors: readErrors,
  },
  {
    method: 'patch',
    path: '/v1/account/keys/{key_id}',
    id: 'updateKey',
    tag: 'Keys',
    summary: 'Change a key',
    description: 'Only the fields that are sent change.',
    access: { scope: 'keys:update' },
    parameters: [keyId],
    body: {
      schema: keySettings,
      examples: { limit: { summary: 'Another daily limit', value: { daily_limit: 20, allowed_models: null } } },
    },
    answers: { 200: { description: 'The key, masked.', schema: account.key } },
    errors: changeErrors,
  },
  {
    method: 'post',
    path: '/v1/account/keys/{key_id}/rotate',
    id: 'rotateKey',
    tag: 'Keys',
    summary: 'Rotate a key',
    description: 'Its id, limits, money and history stay. The full key is in this answer only.',
    access: { scope: 'keys:update' },
    parameters: [keyId],
    body: {
      schema: rotation,
      optional: true,
      examples: { overlap: { summary: 'The old secret works for another hour', value: { overlap_seconds: 3600 } } },
    },
    answers: { 200: { description: 'The key, in full.', schema: account.key } },
    errors: changeErrors,
  },
  {
    method: 'delete',
    path: '/v1/account/keys/{key_id}',
    id: 'deleteKey',
    tag: 'Keys',
    summary: 'Delete a key',
    description: 'Takes effect at once and can’t be undone. The key’s balance moves back to the account.',
    access: { scope: 'keys:delete' },
    parameters: [keyId],
    answers: done,
    errors: changeErrors,
  },
];

const limits: readonly Operation[] = [
  {
    method: 'get',
    path: '/v1/account/limits',
    id: 'listLimits',
    tag: 'Limits',
    summary: 'List the limits',
    access: { scope: 'limits:read' },
    parameters: [
      ...pageQuery,
      query('scope', 'Only limits of the account, of groups or of keys.', { enum: ['account', 'group', 'key'] }),
      query('id', 'Only limits of the group or key with this id; needs `scope`.', { type: 'integer', minimum: 1 }),
    ],
    answers: { 200: { description: 'The limits.', schema: account.limits } },
    errors: readErrors,
  },
  {
    method: 'post',
    path: '/v1/account/limits',
    id: 'createLimit',
    tag: 'Limits',
    summary: 'Create a limit',
    access: { scope: 'limits:write' },
    body: {
      schema: newLimit,
      examples: {
        money: {
          summary: 'Dollars per month for the account',
          value: { scope: { type: 'account' }, unit: 'usd', window: 'month', max: 1000, time_zone: 'Europe/Berlin' },
        },
        tokens: {
          summary: 'Tokens per hour for each end user',
          value: { scope: { type: 'account' }, unit: 'tokens', window: 'hour', max: 100_000, end_users: 'each' },
        },
        concurrent: {
          summary: 'Concurrent requests',
          value: { scope: { type: 'account' }, unit: 'concurrent', max: 50, models: ['sim/*'] },
        },
      },
    },
    answers: { 200: { description: 'The limit.', schema: account.limit } },
    errors: changeErrors,
  },
  {
    method: 'get',
    path: '/v1/account/limits/{limit_id}',
    id: 'getLimit',
    tag: 'Limits',
    summary: 'Read a limit',
    access: { scope: 'limits:read' },
    parameters: [limitId],
    answers: { 200: { description: 'The limit.', schema: account.limit } },
    errors: readErrors,
  },
  {
    method: 'patch',
    path: '/v1/account/limits/{limit_id}',
    id: 'updateLimit',
    tag: 'Limits',
    summary: 'Change a limit',
    description: 'Only the fields that are sent change. Only the operator can change a locked limit: 403.',
    access: { scope: 'limits:write' },
    parameters: [limitId],
    body: {
      schema: limitChange,
      examples: {
        raise: { summary: 'A temporary maximum', value: { raised: { max: 2000, until: '2100-01-01T00:00:00Z' } } },
      },
    },
    answers: { 200: { description: 'The limit.', schema: account.limit } },
    errors: changeErrors,
  },
  {
    method: 'delete',
    path: '/v1/account/limits/{limit_id}',
    id: 'deleteLimit',
    tag: 'Limits',
    summary: 'Remove a limit',
    access: { scope: 'limits:write' },
    parameters: [limitId],
    answers: done,
    errors: changeErrors,
  },
];

const groups: readonly Operation[] = [
  {
    method: 'get',
    path: '/v1/account/groups',
    id: 'listGroups',
    tag: 'Groups',
    summary: 'List the groups',
    access: { scope: 'groups:read' },
    parameters: pageQuery,
    answers: { 200: { description: 'The groups.', schema: account.groups } },
    errors: readErrors,
  },
  {
    method: 'post',
    path: '/v1/account/groups',
    id: 'createGroup',
    tag: 'Groups',
    summary: 'Create a group',
    access: { scope: 'groups:write' },
    body: {
      schema: groupSettings,
      examples: {
        team: { summary: 'A team with its tag', value: { name: 'search', tags: { team: 'search' } } },
        prepaid: { summary: 'A team with money of its own', value: { name: 'interns', balance: 0.1 } },
      },
    },
    answers: { 200: { description: 'The group.', schema: account.group } },
    errors: changeErrors,
  },
  {
    method: 'get',
    path: '/v1/account/groups/{group_id}',
    id: 'getGroup',
    tag: 'Groups',
    summary: 'Read a group',
    access: { scope: 'groups:read' },
    parameters: [groupId],
    answers: { 200: { description: 'The group.', schema: account.group } },
    errors: readErrors,
  },
  {
    method: 'patch',
    path: '/v1/account/groups/{group_id}',
    id: 'updateGroup',
    tag: 'Groups',
    summary: 'Change a group',
    description: 'Only the fields that are sent change.',
    access: { scope: 'groups:write' },
    parameters: [groupId],
    body: { schema: groupSettings, examples: { name: { summary: 'Another name', value: { name: 'ranking' } } } },
    answers: { 200: { description: 'The group.', schema: account.group } },
    errors: changeErrors,
  },
  {
    method: 'delete',
    path: '/v1/account/groups/{group_id}',
    id: 'deleteGroup',
    tag: 'Groups',
    summary: 'Remove a group',
    description:
      'Possible only if the group has no keys and no groups, else 409. Its balance moves back to the account.',
    access: { scope: 'groups:write' },
    parameters: [groupId],
    answers: done,
    errors: changeErrors,
  },
];

const span: readonly Parameter[] = [
  query('start', 'Only requests from this time on.', { type: 'string', format: 'date-time' }),
  query('end', 'Only requests before this time.', { type: 'string', format: 'date-time' }),
];
const requestFilter: readonly Parameter[] = [
  query('model', 'Only requests of this model.'),
  query('api_key_id', 'Only requests of this key.', { type: 'integer', minimum: 1 }),
  query('group_id', 'Only requests of keys in this group or in groups within it.', { type: 'integer', minimum: 1 }),
  query('tag', 'Only requests with this tag: `team:search`.'),
  query('end_user', 'Only requests for this end user.'),
  query('provider', 'Only requests that this provider answered.'),
  query('endpoint', 'Only requests on this path: `/v1/chat/completions`.'),
];
const activityQuery: readonly Parameter[] = [...pageQuery, ...requestFilter, ...span];
const analyticsQuery: readonly Parameter[] = [
  query('granularity', 'Sums per hour or per day.', { enum: ['hour', 'day'], default: 'day' }),
  query('group_by', '`none`, `model`, `api_key`, `provider`, `endpoint`, `group`, `end_user` or `tag:NAME`.', {
    type: 'string',
    default: 'none',
  }),
  query(
    'groups_max',
    'How many groups are listed: those with the largest sum of `most` between `start` and `end`. The others are added up in one entry with `rest`. By default all are listed.',
    {
      type: 'integer',
      minimum: 1,
      maximum: 1000,
    },
  ),
  query('most', 'The measure that decides which groups are listed.', {
    enum: ['cost', 'requests', 'tokens', 'failed_requests'],
    default: 'cost',
  }),
  ...requestFilter,
  ...span,
];
const requestId = pathId('request_id', 'The `x-request-id` of the answer.');

/** Usage, as the account or a key's holder sees it. */
function usageOperations(isOwn: boolean): readonly Operation[] {
  const [root, tag, name] = isOwn ? ['/v1/key', 'Own key', 'Own'] : ['/v1/account', 'Usage', ''];
  const access = (scope: string): Operation['access'] => (isOwn ? 'api_key' : { scope });
  return [
    {
      method: 'get',
      path: `${root}/activity`,
      id: `list${name}Activity`,
      tag,
      summary: isOwn ? 'List the key’s requests' : 'List requests',
      access: access('account:activity'),
      parameters: activityQuery,
      answers: { 200: { description: 'A page of settled requests, newest first.', schema: usage.activity } },
      errors: readErrors,
    },
    {
      method: 'get',
      path: `${root}/activity/{request_id}`,
      id: `get${name}Activity`,
      tag,
      summary: 'Read a request and how its cost was calculated',
      access: access('account:activity'),
      parameters: [requestId],
      answers: { 200: { description: 'The request with the parts of its cost.', schema: usage.receipt } },
      errors: readErrors,
    },
    {
      method: 'get',
      path: `${root}/analytics`,
      id: `get${name}Analytics`,
      tag,
      summary: isOwn ? 'Sum up the key’s requests' : 'Sum up requests',
      description: 'Without `start` and `end`: the last 30 days.',
      access: access('account:read'),
      parameters: analyticsQuery,
      answers: { 200: { description: 'The sums.', schema: usage.analytics } },
      errors: readErrors,
    },
  ];
}

const nextQuery: readonly Parameter[] = [
  query('model', 'The model, by any of its names; by default the first model of the list.'),
  query('input_tokens', 'How many input tokens; by default 1000.', { type: 'integer', minimum: 1 }),
];

const paymentAndBodies: readonly Operation[] = [
  {
    method: 'get',
    path: '/v1/account/keys/{key_id}/next',
    id: 'getNextPayment',
    tag: 'Keys',
    summary: 'Preview who would pay for a key’s next request',
    description: 'Nothing is held or counted.',
    access: { scope: 'limits:read' },
    parameters: [keyId, ...nextQuery],
    answers: { 200: { description: 'The limits that apply, and who would pay.', schema: account.nextPayment } },
    errors: readErrors,
  },
  {
    method: 'get',
    path: '/v1/key/next',
    id: 'getOwnNextPayment',
    tag: 'Own key',
    summary: 'Preview who would pay for the next request',
    description: 'Nothing is held or counted.',
    access: 'api_key',
    parameters: nextQuery,
    answers: { 200: { description: 'The limits that apply, and who would pay.', schema: account.nextPayment } },
    errors: readErrors,
  },
  {
    method: 'get',
    path: '/v1/account/activity/{request_id}/bodies',
    id: 'getRequestBodies',
    tag: 'Usage',
    summary: 'Read the bodies of a request',
    description:
      'The bodies of the client, of the upstream, and in the form that the gateway uses internally, if they were stored (`content.bodies` of the configuration or `keep_bodies` of the key).',
    access: { scope: 'account:bodies' },
    parameters: [requestId],
    answers: { 200: { description: 'The stored bodies.', schema: usage.bodies } },
    errors: readErrors,
  },
  {
    method: 'get',
    path: '/v1/account/balance',
    id: 'getBalance',
    tag: 'Usage',
    summary: 'Read the balance',
    access: { scope: 'account:balance' },
    answers: { 200: { description: 'The balance.', schema: account.balance } },
    errors: readErrors,
  },
];
const ownKeyPaths: readonly Operation[] = [
  {
    method: 'get',
    path: '/v1/key',
    id: 'getOwnKey',
    tag: 'Own key',
    summary: 'Read the key that sends the request',
    access: 'api_key',
    answers: { 200: { description: 'The key, its limits and what pays for its requests.', schema: ownKey } },
    errors: readErrors,
  },
];

/** The account's operations and those of a key's holder. */
export const accountOperations: readonly Operation[] = [
  keys,
  limits,
  groups,
  paymentAndBodies,
  usageOperations(false),
  ownKeyPaths,
  usageOperations(true),
]
  .flat()
  .map(operation => ({ ...operation, errorShape: 'account' }));
