/** Builds the gateway and the dashboard into `dist`, each if its sources have changed. `npm ci` (prepare), `npm start`, `npm test`, `npm run bench` and `npm pack` run it. */
import { buildDashboard } from './build-dashboard.ts';
import { buildGateway } from './build-gateway.ts';

await buildGateway();
await buildDashboard();
