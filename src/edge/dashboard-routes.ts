import type { FastifyInstance } from 'fastify';
import type { Dashboard } from './dashboard/dashboard.ts';

/** Returns whether a path belongs to the dashboard; pages of other origins must not call such paths. */
export function isDashboardPath(url: string): boolean {
  return /^\/dashboard(?:[/?]|$)/.test(url);
}

/** Registers everything below `/dashboard`. */
export function registerDashboard(app: FastifyInstance, dashboard: Dashboard): void {
  for (const url of ['/dashboard', '/dashboard/*']) {
    app.route({
      method: ['GET', 'HEAD', 'POST'],
      url,
      handler: (request, reply) => {
        reply.hijack();
        dashboard.answer(request.raw, reply.raw, request.id);
      },
    });
  }
}
