import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import { ProtocolExtras } from '../extras.ts';
import { OpenAiUsage } from '../openai-usage.ts';

/** Members that only Completions has. */
export const extras = new ProtocolExtras(Protocol.COMPLETIONS);

/** Converts usage to and from the form of Completions. */
export const usage = new OpenAiUsage(extras);
