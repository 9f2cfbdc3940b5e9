import { OpenAiUsage } from '../openai-usage.ts';
import { extras } from './extras.ts';

/** Converts usage to and from Chat's form. */
export const usage = new OpenAiUsage(extras);
