/** Runs `openai-responses.e2e.test.ts` against gateways with a second gateway as their upstream, once for each protocol between the two. */
import { describeSecondGateways } from './second-gateway.ts';

describeSecondGateways('openai-responses', ['chat', 'messages', 'responses']);
