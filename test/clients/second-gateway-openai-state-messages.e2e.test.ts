/** The conversations of `openai-state.e2e.test.ts` through gateway → Messages upstream → gateway → built-in models. */
import { speakThroughSecondGateway } from './second-gateway.ts';

speakThroughSecondGateway('messages');
await import('./openai-state.e2e.test.ts');
