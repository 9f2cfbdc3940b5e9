import type { ImageAnswer } from '../../gen/tollgate/v1/image_pb.ts';
import type { RestoredFacts } from '../idempotency/restored-event.ts';
import { limitState } from '../limit-state.ts';
import type { AdmittedImages, KeptDrawing } from './image-run.ts';

/** What is decided anew whenever an answer is told. */
export interface AnswerView {
  /** Name the route. */
  readonly exposeRoute: boolean;
  /** Where a kept picture can be fetched. */
  readonly urlOf: (name: string) => string;
}

type Part = ImageAnswer['part'];

const chunkBytes = 262_144;

function answerOf(part: Part): ImageAnswer {
  return { $typeName: 'tollgate.v1.ImageAnswer', part };
}

/** The parts of an answer, all but the last. */
export function* answerParts(
  { requestId, order, admitted }: AdmittedImages,
  { createdAtMs, route, images, extraJson: allExtraJson }: KeptDrawing,
  { exposeRoute, urlOf }: AnswerView,
): Generator<ImageAnswer, void, undefined> {
  yield answerOf({
    case: 'started',
    value: {
      $typeName: 'tollgate.v1.ImagesStarted',
      requestId,
      model: order.model.id,
      createdAtMs: BigInt(createdAtMs),
      limits: admitted.windows.map(limitState),
      route: exposeRoute ? `${route.provider}/${route.model}` : '',
      extraJson: allExtraJson,
    },
  });
  for (const { type, size, content, revisedPrompt, extraJson } of images) {
    const url = content.kind === 'name' ? urlOf(content.name) : '';
    const head = { mediaType: type, size: BigInt(size), url, revisedPrompt, extraJson };
    yield answerOf({ case: 'image', value: { $typeName: 'tollgate.v1.ImageHead', ...head } });
    if (content.kind === 'name') continue;
    for (let at = 0; at < content.bytes.length; at += chunkBytes) {
      yield answerOf({ case: 'chunk', value: content.bytes.subarray(at, at + chunkBytes) });
    }
  }
}

/** A part of a kept answer, whose pictures stand there by name, as it is told today. */
export function restoredPart(
  part: Part,
  { costNanoUsd, limits, urlOf }: RestoredFacts & Pick<AnswerView, 'urlOf'>,
): ImageAnswer {
  switch (part.case) {
    case 'started':
      return answerOf({ case: 'started', value: { ...part.value, limits } });
    case 'image': {
      const { url } = part.value;
      return answerOf({ case: 'image', value: { ...part.value, url: url === '' ? '' : urlOf(url) } });
    }
    case 'completed':
      return answerEnd(costNanoUsd);
    default:
      return answerOf(part);
  }
}

/** The last part. */
export function answerEnd(costNanoUsd: bigint): ImageAnswer {
  return answerOf({ case: 'completed', value: { $typeName: 'tollgate.v1.ImagesCompleted', costNanoUsd } });
}
