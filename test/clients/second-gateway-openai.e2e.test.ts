/** The conversations of `openai.e2e.test.ts` through gateway → Chat upstream → gateway → built-in models. */
import { speakThroughSecondGateway } from './second-gateway.ts';

speakThroughSecondGateway();
await import('./openai.e2e.test.ts');
