import type { DescService } from '@bufbuild/protobuf';
import { EmbeddingService } from '../gen/tollgate/v1/embedding_pb.ts';
import { RerankService } from '../gen/tollgate/v1/rerank_pb.ts';

/**
 * The services of the endpoints whose answers are not streamed. Their messages contain prompts, workers answer them, and keys and
 * signed-in people may call them.
 */
export const directServices: readonly DescService[] = [EmbeddingService, RerankService];
