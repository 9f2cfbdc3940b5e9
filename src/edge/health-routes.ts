import type { FastifyInstance } from 'fastify';
import { GatewayError } from '../errors/gateway-error.ts';
import { metricsContentType } from '../telemetry/metrics.ts';
import { jsonAnswer, writeAnswer } from './answer.ts';
import type { Edge } from './edge.ts';
import { unreadyLevels } from './load-watch.ts';

/** The paths that the gateway still answers while it stops. */
export const operatorPaths: ReadonlySet<string> = new Set(['/healthz', '/readyz', '/metrics']);

/**
 * Registers `GET /healthz` (the process is alive), `GET /readyz` (the gateway accepts requests; 503 while it stops, is overloaded, or can't
 * write to its storage), `GET /api/hello` (for Claude Code) and, if configured, `GET /metrics`. No key is needed.
 */
export function registerHealth(app: FastifyInstance, edge: Edge): void {
  for (const path of ['/healthz', '/readyz']) {
    app.get(path, (request, reply) => {
      if (path === '/readyz') refuseUnready(edge);
      reply.hijack();
      writeAnswer(request.raw, reply.raw, jsonAnswer(200, request.call.headers, { status: 'ok' }));
    });
  }
  // Claude Code requests this path before its first request, to check that the host can be reached.
  app.get('/api/hello', (request, reply) => {
    reply.hijack();
    writeAnswer(request.raw, reply.raw, jsonAnswer(200, request.call.headers, { message: 'hello' }));
  });
  if (!edge.options.publicMetrics) return;
  app.get('/metrics', async (request, reply) => {
    const { metrics, metricsText } = edge.options;
    const body = metricsText === undefined ? metrics.text('anyone') : await metricsText('anyone');
    reply.hijack();
    const headers = { ...request.call.headers, 'content-type': metricsContentType };
    writeAnswer(request.raw, reply.raw, { status: 200, headers, body });
  });
}

function refuseUnready(edge: Edge): void {
  const reason = edge.stopping() ? 'The gateway is stopping.' : edge.options.unready?.();
  if (reason !== undefined) throw new GatewayError('overloaded', reason);
  if (unreadyLevels.has(edge.load.level)) throw new GatewayError('overloaded', 'The gateway is overloaded.');
}
