import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import { ProtocolExtras } from '../extras.ts';

/** Fields that only Chat Completions has. */
export const extras = new ProtocolExtras(Protocol.CHAT);
