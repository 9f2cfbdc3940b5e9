import type { FastifyInstance } from 'fastify';
import type { Dashboard } from './dashboard/dashboard.ts';

/** Whether a path belongs to the dashboard, which no page of another origin may ask anything. */
export function isDashboardPath(url: string): boolean {
  return /^\/dashboard(?:[/?]|$)/.test(url);
}

/** Everything below `/dashboard`. */
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
