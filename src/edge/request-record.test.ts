import fc from 'fast-check';
import { expect, test } from 'vitest';
import { systemRuntime } from '../lib/runtime.ts';
import { createLogger } from '../telemetry/logger.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { Call } from './call.ts';
import type { Edge } from './edge.ts';
import { recordRequest } from './request-record.ts';

const routes = [
  { provider: 'acme', model: 'small' },
  { provider: 'acme', model: 'large' },
  { provider: 'acme', model: 'small' },
  { provider: 'other', model: 'small' },
];
const facts = fc.record({
  accountId: fc.constantFrom(1, 2),
  // 1 and 257 have the same last bits.
  keyId: fc.constantFrom(1, 2, 257, undefined),
  model: fc.constantFrom('acme/small', 'acme/large', undefined),
  url: fc.constantFrom('/v1/chat/completions', '/v1/responses', ''),
  route: fc.constantFrom(...routes, undefined),
});

/** Returns some members of a log line. */
function pick(line: string, names: readonly string[]): object {
  const members = Object.entries(JSON.parse(line) as object);
  return Object.fromEntries(members.filter(([name]) => names.includes(name)));
}

test('the line of a request has its own account, key, model, path and route, whatever came before', () => {
  const lines: string[] = [];
  const logger = createLogger({ level: 'info', destination: { write: line => void lines.push(line) } });
  // Only this much of an edge is used.
  const edge = { options: { logger, metrics: new Metrics('1.2.3') } } as unknown as Edge;
  fc.assert(
    fc.property(fc.array(facts, { maxLength: 20 }), requests => {
      lines.length = 0;
      for (const { accountId, keyId, model, url, route } of requests) {
        const call = Object.assign(new Call(systemRuntime, 'req_1'), { accountId, keyId, model, route });
        recordRequest(edge, { call, method: 'POST', routeOptions: { url }, url: `/${keyId}?secret` }, { status: 200 });
      }
      const names = ['account_id', 'key_id', 'model', 'endpoint', 'path', 'provider', 'route'];
      expect(lines.map(line => pick(line, names))).toEqual(
        requests.map(({ accountId, keyId, model, url, route }) => ({
          account_id: accountId,
          key_id: keyId,
          model,
          endpoint: url === '' ? 'other' : url,
          path: url === '' ? `/${keyId}` : undefined,
          provider: route?.provider,
          route: route === undefined ? undefined : `${route.provider}/${route.model}`,
        })),
      );
    }),
  );
});
