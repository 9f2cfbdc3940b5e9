import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import { ProtocolExtras } from '../extras.ts';

/** Carries the content that only the Responses protocol has. */
export const extras = new ProtocolExtras(Protocol.RESPONSES);
