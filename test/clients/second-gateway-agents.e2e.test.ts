/** Runs `agents.e2e.test.ts` against gateways with a second gateway as their upstream, once for each protocol between the two. */
import { describeSecondGateways } from './second-gateway.ts';

describeSecondGateways('agents');
