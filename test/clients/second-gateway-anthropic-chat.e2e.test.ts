/** The conversations of `anthropic.e2e.test.ts` through gateway → Chat upstream → gateway → built-in models. */
import { speakThroughSecondGateway } from './second-gateway.ts';

speakThroughSecondGateway('chat');
await import('./anthropic.e2e.test.ts');
