import type { ImageRequest } from '../../gen/tollgate/v1/image_pb.ts';
import type { Hold } from '../hold.ts';
import type { AttemptWatch, KeysHealth } from '../upstream.ts';
import type { ImageType } from './image-type.ts';

/** One try of a drawing at one upstream. */
export interface ImageCall {
  /** Nothing goes upstream without a hold. */
  readonly hold: Hold;
  /** The checked request; `model` is the listed id. Pictures are there exactly where it is an edit. */
  readonly request: ImageRequest;
  /** The upstream's own name of the model. */
  readonly model: string;
  /** Which try of this request it is, over all routes, from 1. */
  readonly attempt: number;
  /** Aborted when nobody wants the pictures any more: the upstream must stop within a second. */
  readonly signal: AbortSignal;
  /** Absent: nobody follows it. */
  readonly watch?: AttemptWatch | undefined;
}

/** One picture. */
export interface DrawnImage {
  readonly bytes: Uint8Array;
  readonly type: ImageType;
  /** The prompt that the upstream drew from; '' where it does not say. */
  readonly revisedPrompt: string;
  /** What else the upstream says of it, as a JSON object; '' for nothing. */
  readonly extraJson: string;
}

/** What an upstream has drawn: at least one picture. */
export interface Drawing {
  readonly images: readonly DrawnImage[];
  /** What else the upstream says of all of them, as a JSON object; '' for nothing. */
  readonly extraJson: string;
}

/** Something that draws: a provider over HTTP, or the built-in simulator. */
export interface ImageUpstream {
  /** Absent: it has no keys that could be refused. */
  readonly keys?: KeysHealth;
  /** Draws all pictures of a request. Throws `UpstreamFailure`, and the signal's reason once it is aborted. */
  draw(call: ImageCall): Promise<Drawing>;
}
