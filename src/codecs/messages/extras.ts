import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import { ProtocolExtras } from '../extras.ts';

/** Members that only Messages has. */
export const extras = new ProtocolExtras(Protocol.MESSAGES);
