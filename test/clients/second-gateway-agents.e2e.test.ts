/** The conversations of `agents.e2e.test.ts` through gateway → Chat upstream → gateway → built-in models. */
import { speakThroughSecondGateway } from './second-gateway.ts';

speakThroughSecondGateway();
await import('./agents.e2e.test.ts');
