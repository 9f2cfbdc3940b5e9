/** The conversations of `langchain-anthropic.e2e.test.ts` through gateway → Chat upstream → gateway → built-in models. */
import { speakThroughSecondGateway } from './second-gateway.ts';

speakThroughSecondGateway('chat');
await import('./langchain-anthropic.e2e.test.ts');
