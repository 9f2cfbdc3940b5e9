import type { ImageRequest } from '../../gen/tollgate/v1/image_pb.ts';
import type { Hold } from '../hold.ts';
import type { AttemptWatch, KeysHealth } from '../upstream.ts';
import type { ImageType } from './image-type.ts';

/** One attempt to draw at one upstream. */
export interface ImageCall {
  /** The hold of the request: nothing may be sent upstream without one. */
  readonly hold: Hold;
  /** The checked request; `model` is the listed id. It has input images if, and only if, it is an edit. */
  readonly request: ImageRequest;
  /** The upstream's name for the model. */
  readonly model: string;
  /** The number of the attempt within the request, over all routes, from 1. */
  readonly attempt: number;
  /** Aborted when the images are no longer wanted: the upstream must stop within a second. */
  readonly signal: AbortSignal;
  /** Observes the attempt for a trace; absent: it is not traced. */
  readonly watch?: AttemptWatch | undefined;
}

/** A drawn image. */
export interface DrawnImage {
  readonly bytes: Uint8Array;
  readonly type: ImageType;
  /** The prompt from which the upstream drew the image; '' if it does not report it. */
  readonly revisedPrompt: string;
  /** Unknown members of the image in the upstream's answer, as a JSON object; '' if there are none. */
  readonly extraJson: string;
}

/** The images that an upstream has drawn, at least one. */
export interface Drawing {
  readonly images: readonly DrawnImage[];
  /** Unknown members of the upstream's whole answer, as a JSON object; '' if there are none. */
  readonly extraJson: string;
}

/** Draws images: a provider over HTTP, or the built-in model. */
export interface ImageUpstream {
  /** The state of its keys; absent: it has none. */
  readonly keys?: KeysHealth;
  /** Draws all images of a request. Throws `UpstreamFailure`; if the signal is aborted, its reason. */
  draw(call: ImageCall): Promise<Drawing>;
}
