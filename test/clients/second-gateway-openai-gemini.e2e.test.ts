/** The conversations of `openai.e2e.test.ts` through gateway → Gemini server → gateway → built-in models. */
import { speakThroughSecondGateway } from './second-gateway.ts';

speakThroughSecondGateway('gemini');
await import('./openai.e2e.test.ts');
