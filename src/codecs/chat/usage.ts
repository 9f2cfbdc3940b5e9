import { OpenAiUsage } from '../openai-usage.ts';
import { extras } from './extras.ts';

/** Usage in Chat's words. */
export const usage = new OpenAiUsage(extras);
