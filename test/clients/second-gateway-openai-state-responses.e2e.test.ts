/** The conversations of `openai-state.e2e.test.ts` through gateway → Responses upstream → gateway → built-in models. */
import { speakThroughSecondGateway } from './second-gateway.ts';

speakThroughSecondGateway('responses');
await import('./openai-state.e2e.test.ts');
