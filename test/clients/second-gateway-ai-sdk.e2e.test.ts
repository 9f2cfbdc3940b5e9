/** The conversations of `ai-sdk.e2e.test.ts` through gateway → Chat upstream → gateway → built-in models. */
import { speakThroughSecondGateway } from './second-gateway.ts';

speakThroughSecondGateway();
await import('./ai-sdk.e2e.test.ts');
