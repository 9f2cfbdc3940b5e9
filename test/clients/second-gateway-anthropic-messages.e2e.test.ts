/** The conversations of `anthropic.e2e.test.ts` through gateway → Messages upstream → gateway → built-in models. */
import { speakThroughSecondGateway } from './second-gateway.ts';

speakThroughSecondGateway('messages');
await import('./anthropic.e2e.test.ts');
