import type { ImageType } from '../generation/images/image-type.ts';

/** The port of pictures that are delivered by address: each is kept for its time under a name that nobody can guess, then gone. Times in ms since 1970 UTC. */
export interface Files {
  /**
   * Keeps a picture; durable when the promise resolves. Its name is a token of 128 random bits and the ending of its type. Throws `GatewayError`
   * `overloaded` where there is no room.
   */
  put(bytes: Uint8Array, type: ImageType): Promise<string>;
  /** A picture by its name; undefined where there is none, or its time is over. Whoever opens it closes it. */
  open(name: string): Promise<OpenFile | undefined>;
  /** Removes a picture before its time; nothing where it is not there. */
  delete(name: string): Promise<void>;
  /** Removes what has ended; how many were removed. Runs by itself as well. */
  sweep(): Promise<number>;
  /** Ends the sweeping; the pictures stay. */
  close(): Promise<void>;
}

/** A picture that is read. */
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
