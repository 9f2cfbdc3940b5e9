import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import { ProtocolExtras } from '../extras.ts';

/** What Chat Completions alone knows. */
export const extras = new ProtocolExtras(Protocol.CHAT);
