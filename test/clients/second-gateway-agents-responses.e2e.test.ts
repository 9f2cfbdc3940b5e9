/** The conversations of `agents.e2e.test.ts` through gateway → Responses upstream → gateway → built-in models. */
import { speakThroughSecondGateway } from './second-gateway.ts';

speakThroughSecondGateway('responses');
await import('./agents.e2e.test.ts');
