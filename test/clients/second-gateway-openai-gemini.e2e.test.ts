/** Runs `openai.e2e.test.ts` against a gateway whose upstream is a Gemini server; a second gateway answers for that server. */
import { speakThroughSecondGateway } from './second-gateway.ts';

speakThroughSecondGateway('gemini');
await import('./openai.e2e.test.ts');
