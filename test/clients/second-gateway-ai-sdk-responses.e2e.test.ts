/** The conversations of `ai-sdk.e2e.test.ts` through gateway → Responses upstream → gateway → built-in models. */
import { speakThroughSecondGateway } from './second-gateway.ts';

speakThroughSecondGateway('responses');
await import('./ai-sdk.e2e.test.ts');
