/** The conversations of `openai-state.e2e.test.ts` through gateway → Chat upstream → gateway → built-in models. */
import { speakThroughSecondGateway } from './second-gateway.ts';

speakThroughSecondGateway();
await import('./openai-state.e2e.test.ts');
