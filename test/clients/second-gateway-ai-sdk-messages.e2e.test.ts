/** The conversations of `ai-sdk.e2e.test.ts` through gateway → Messages upstream → gateway → built-in models. */
import { speakThroughSecondGateway } from './second-gateway.ts';

speakThroughSecondGateway('messages');
await import('./ai-sdk.e2e.test.ts');
