/** The conversations of `anthropic.e2e.test.ts` through gateway → Responses upstream → gateway → built-in models. */
import { speakThroughSecondGateway } from './second-gateway.ts';

speakThroughSecondGateway('responses');
await import('./anthropic.e2e.test.ts');
