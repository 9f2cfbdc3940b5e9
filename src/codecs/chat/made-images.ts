import type { ServerTool } from '../../gen/tollgate/v1/content_pb.ts';
import { readMadeImage } from '../../generation/made-image.ts';
import type { JsonObject } from '../codec.ts';
import { extras } from './extras.ts';

/** Returns the entry of `images` for an image that a model, or a tool of its provider, made; undefined if the item has none. Source: OpenRouter, "Image generation", 2026-11. */
export function renderImage(item: Pick<ServerTool, 'protocol' | 'json'>, index: number): JsonObject | undefined {
  const own = extras.own(item);
  if (own !== undefined) return own['image_url'] === undefined ? undefined : own;
  const image = readMadeImage(item);
  return image === undefined ? undefined : { type: 'image_url', image_url: { url: image.url }, index };
}
