/** The faults of `upstream-faults.e2e.test.ts` of an upstream that speaks Responses. */
import { speakResponses } from './upstream-bytes.ts';

speakResponses();
await import('./upstream-faults.e2e.test.ts');
