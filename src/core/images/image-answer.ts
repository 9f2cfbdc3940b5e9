import type { WindowState } from '../../errors/gateway-error.ts';
import type { ImageAnswer } from '../../gen/tollgate/v1/image_pb.ts';
import type { RestoredFacts } from '../idempotency/restored-event.ts';
import { limitState } from '../limit-state.ts';
import type { KeptDrawing } from './image-run.ts';

/** What an answer says beside its pictures. */
export interface AnswerFacts {
  readonly requestId: string;
  /** The listed id. */
  readonly model: string;
  readonly windows: readonly WindowState[];
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
export function* answerParts(drawing: KeptDrawing, facts: AnswerFacts): Generator<ImageAnswer, void, undefined> {
  const { route } = drawing;
  yield answerOf({
    case: 'started',
    value: {
      $typeName: 'tollgate.v1.ImagesStarted',
      requestId: facts.requestId,
      model: facts.model,
      createdAtMs: BigInt(drawing.createdAtMs),
      limits: facts.windows.map(limitState),
      route: facts.exposeRoute ? `${route.provider}/${route.model}` : '',
      extraJson: drawing.extraJson,
    },
  });
  for (const { type, size, content, revisedPrompt, extraJson } of drawing.images) {
    const url = content.kind === 'name' ? facts.urlOf(content.name) : '';
    const head = { mediaType: type, size: BigInt(size), url, revisedPrompt, extraJson };
    yield answerOf({ case: 'image', value: { $typeName: 'tollgate.v1.ImageHead', ...head } });
    if (content.kind === 'name') continue;
    for (let at = 0; at < content.bytes.length; at += chunkBytes) {
      yield answerOf({ case: 'chunk', value: content.bytes.subarray(at, at + chunkBytes) });
    }
  }
}

/** What is known only when a kept answer is told again. */
export interface Restored extends RestoredFacts {
  readonly urlOf: (name: string) => string;
}

/** A part of a kept answer, whose pictures stand there by name, as it is told today. */
export function restoredPart(part: Part, { costNanoUsd, limits, urlOf }: Restored): ImageAnswer {
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
