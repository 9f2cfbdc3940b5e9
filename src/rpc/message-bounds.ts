import type { DescService } from '@bufbuild/protobuf';
import { FileService } from '../gen/tollgate/v1/batch_pb.ts';
import { ConversationService } from '../gen/tollgate/v1/conversation_pb.ts';
import { GenerationService } from '../gen/tollgate/v1/generation_pb.ts';
import { ImageService } from '../gen/tollgate/v1/image_pb.ts';
import { ResponseService } from '../gen/tollgate/v1/response_pb.ts';
import type { MessageBounds } from './bounded-body.ts';
import { directServices } from './direct-services.ts';

/** Maximum sizes of messages over the network. */
export interface MessageLimits {
  /** The largest message to a service that accepts prompts or images, in bytes; default 64 MiB. Messages of an edge may be twice as large. */
  readonly messageBytesMax?: number;
  /** The largest message to any other service, in bytes; default 1 MiB. */
  readonly controlBytesMax?: number;
  /** The most fields and list entries of one message; default 100,000. */
  readonly elementsMax?: number;
}

/** See `MessageLimits`. */
export const defaultMessageBytesMax = 64 << 20;
/** The most bytes of an edge's message in addition to its client's body, which it contains twice: raw and decoded. */
export const edgeExtraBytes = 1 << 20;
const defaultControlBytesMax = 1 << 20;
const defaultElementsMax = 100_000;
/** Services whose messages contain prompts or images. */
export const contentServices: readonly DescService[] = [
  GenerationService,
  ResponseService,
  ConversationService,
  ImageService,
  ...directServices,
  FileService,
];

/** Returns the limits of messages to a service. `isEdge`: the caller is an edge. */
export function messageBounds(limits: MessageLimits, service: DescService, isEdge: boolean): MessageBounds {
  const elementsMax = limits.elementsMax ?? defaultElementsMax;
  if (!contentServices.includes(service)) {
    return { bytesMax: limits.controlBytesMax ?? defaultControlBytesMax, elementsMax };
  }
  const bytesMax = limits.messageBytesMax ?? defaultMessageBytesMax;
  return { bytesMax: isEdge ? 2 * bytesMax + edgeExtraBytes : bytesMax, elementsMax };
}
