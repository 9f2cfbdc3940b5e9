import type { ImageAnswer } from '../../gen/tollgate/v1/image_pb.ts';
import type { RestoredFacts } from '../idempotency/restored-event.ts';
import { limitState } from '../limit-state.ts';
import type { AdmittedImages, KeptDrawing } from './image-run.ts';

/** The decisions that are made anew each time an answer is sent. */
export interface AnswerView {
  /** True if the client may see the route. */
  readonly exposeRoute: boolean;
  /** Returns the URL of a stored image. */
  readonly toUrl: (name: string) => string;
}

type Part = ImageAnswer['part'];

const chunkBytes = 262_144;

function toAnswer(part: Part): ImageAnswer {
  return { $typeName: 'tollgate.v1.ImageAnswer', part };
}

/** Yields the parts of an answer, except the last one (`answerEnd`). */
export function* answerParts(
  { requestId, prepared, admitted }: AdmittedImages,
  { createdAtMs, route, images, extraJson: allExtraJson }: KeptDrawing,
  { exposeRoute, toUrl }: AnswerView,
): Generator<ImageAnswer, void, undefined> {
  yield toAnswer({
    case: 'started',
    value: {
      $typeName: 'tollgate.v1.ImagesStarted',
      requestId,
      model: prepared.model.id,
      createdAtMs: BigInt(createdAtMs),
      limits: admitted.windows.map(limitState),
      route: exposeRoute ? `${route.provider}/${route.model}` : '',
      extraJson: allExtraJson,
    },
  });
  for (const { type, size, content, revisedPrompt, extraJson } of images) {
    const url = content.kind === 'name' ? toUrl(content.name) : '';
    const head = { mediaType: type, size: BigInt(size), url, revisedPrompt, extraJson };
    yield toAnswer({ case: 'image', value: { $typeName: 'tollgate.v1.ImageHead', ...head } });
    if (content.kind === 'name') continue;
    for (let at = 0; at < content.bytes.length; at += chunkBytes) {
      yield toAnswer({ case: 'chunk', value: content.bytes.subarray(at, at + chunkBytes) });
    }
  }
}

/** Returns a part of a stored answer as it is to be sent now: its images, which are stored by name, get URLs. */
export function restoredPart(
  part: Part,
  { costNanoUsd, limits, toUrl }: RestoredFacts & Pick<AnswerView, 'toUrl'>,
): ImageAnswer {
  switch (part.case) {
    case 'started':
      return toAnswer({ case: 'started', value: { ...part.value, limits } });
    case 'image': {
      const { url } = part.value;
      return toAnswer({ case: 'image', value: { ...part.value, url: url === '' ? '' : toUrl(url) } });
    }
    case 'completed':
      return answerEnd(costNanoUsd);
    default:
      return toAnswer(part);
  }
}

/** Returns the last part of an answer. */
export function answerEnd(costNanoUsd: bigint): ImageAnswer {
  return toAnswer({ case: 'completed', value: { $typeName: 'tollgate.v1.ImagesCompleted', costNanoUsd } });
}
