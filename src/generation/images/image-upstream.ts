import type { ImageRequest } from '../../gen/tollgate/v1/image_pb.ts';
import type { Hold } from '../hold.ts';
import type { AttemptWatch, KeysHealth } from '../upstream.ts';
import type { ImageType } from './image-type.ts';

/** One attempt to draw at one upstream. */
export interface ImageCall {
  /** Nothing goes upstream without a hold. */
  readonly hold: Hold;
  /** The checked request; `model` is the listed id. Input images are present exactly if it is an edit. */
  readonly request: ImageRequest;
  /** The upstream's own name of the model. */
  readonly model: string;
  /** The number of the attempt within the request, over all routes, from 1. */
  readonly attempt: number;
  /** Aborted when the images are no longer wanted: the upstream must stop within a second. */
  readonly signal: AbortSignal;
  /** Absent: not traced. */
  readonly watch?: AttemptWatch | undefined;
}

/** One image. */
export interface DrawnImage {
  readonly bytes: Uint8Array;
  readonly type: ImageType;
  /** The prompt that the upstream drew from; '' if it does not say. */
  readonly revisedPrompt: string;
  /** The upstream's further members, as a JSON object; '' for none. */
  readonly extraJson: string;
}

/** The images that an upstream has drawn, at least one. */
export interface Drawing {
  readonly images: readonly DrawnImage[];
  /** The upstream's further members for all of them, as a JSON object; '' for none. */
  readonly extraJson: string;
}

/** Something that draws: a provider over HTTP, or the built-in simulator. */
export interface ImageUpstream {
  /** Absent: it has no keys that could be refused. */
  readonly keys?: KeysHealth;
  /** Draws all images of a request. Throws `UpstreamFailure`, and the signal's reason once it is aborted. */
  draw(call: ImageCall): Promise<Drawing>;
}
