/** Runs `anthropic.e2e.test.ts` through gateway → Gemini server → gateway → built-in models. */
import { speakThroughSecondGateway } from './second-gateway.ts';

speakThroughSecondGateway('gemini');
await import('./anthropic.e2e.test.ts');
