/** The conversations of `openai-responses.e2e.test.ts` through gateway → Chat upstream → gateway → built-in models. */
import { speakThroughSecondGateway } from './second-gateway.ts';

speakThroughSecondGateway('chat');
await import('./openai-responses.e2e.test.ts');
