import { GatewayError } from '../errors/gateway-error.ts';
import type { ImageType } from '../generation/images/image-type.ts';

/**
 * The port of images that are delivered by address: each is stored for its time under a name that can't be guessed,
 * then removed. Times in ms since 1970 UTC.
 */
export interface Files {
  /**
   * Stores an image; durable when the promise resolves. Its name is a token of 128 random bits and the ending of its
   * type. Throws `GatewayError` `overloaded` if there is no room.
   */
  put(bytes: Uint8Array, type: ImageType): Promise<string>;
  /** Opens an image by its name; undefined if there is none or it has expired. The caller closes it. */
  open(name: string): Promise<OpenFile | undefined>;
  /** Removes an image before its time; does nothing if it does not exist. */
  delete(name: string): Promise<void>;
  /** Removes expired images; returns how many. It also runs by itself. */
  sweep(): Promise<number>;
  /** Stops removing expired images; the images stay. */
  close(): Promise<void>;
}

/** An open image. */
export interface OpenFile {
  readonly type: ImageType;
  readonly size: number;
  /** The same as long as it is there. */
  readonly etag: string;
  readonly expiresAtMs: number;
  /** Its next bytes, none at the end. */
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
