/** The conversations of `langchain.e2e.test.ts` through gateway → Responses upstream → gateway → built-in models. */
import { speakThroughSecondGateway } from './second-gateway.ts';

speakThroughSecondGateway('responses');
await import('./langchain.e2e.test.ts');
