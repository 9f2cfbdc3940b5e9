import { GatewayError } from '../errors/gateway-error.ts';
import type { ImageType } from '../generation/images/image-type.ts';

/**
 * The interface of a store for images that clients fetch by their URL. Each is stored for a limited time under a name that can't be
 * guessed. Times are in ms since 1970 UTC.
 */
export interface Files {
  /**
   * Stores an image and resolves with its name once it is durable. The name is a token of 128 random bits and the extension of
   * its type. Throws `GatewayError` `overloaded` if there is no room.
   */
  put(bytes: Uint8Array, type: ImageType): Promise<string>;
  /** Opens an image by its name; undefined if it does not exist or has expired. The caller closes it. */
  open(name: string): Promise<OpenFile | undefined>;
  /** Removes an image before it expires. Does nothing if it does not exist. */
  delete(name: string): Promise<void>;
  /** Removes expired images and returns how many. The store also does this regularly by itself. */
  sweep(): Promise<number>;
  /** Stops removing expired images; the images stay. */
  close(): Promise<void>;
}

/** An open image. */
export interface OpenFile {
  readonly type: ImageType;
  readonly size: number;
  /** The value for the header `ETag`; it never changes for an image. */
  readonly etag: string;
  readonly expiresAtMs: number;
  /** Returns the next bytes; an empty array at the end. */
  read(): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** The error if there is no room for an image. */
export function noRoomForImages(cause?: unknown): GatewayError {
  return new GatewayError('overloaded', 'The gateway has no room for more images now.', {
    tip: 'Ask for `response_format: "b64_json"`, or try again later: images are kept for an hour.',
    ...(cause === undefined ? {} : { cause }),
  });
}
