/** The conversations of `langchain-anthropic.e2e.test.ts` through gateway → Messages upstream → gateway → built-in models. */
import { speakThroughSecondGateway } from './second-gateway.ts';

speakThroughSecondGateway('messages');
await import('./langchain-anthropic.e2e.test.ts');
