/** The conversations of `agents-websocket.e2e.test.ts` through gateway → Messages upstream → gateway → built-in models. */
import { speakThroughSecondGateway } from './second-gateway.ts';

speakThroughSecondGateway('messages');
await import('./agents-websocket.e2e.test.ts');
