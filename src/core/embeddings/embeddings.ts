import { type EmbedRequest, type EmbedResponse, EmbedResponseSchema } from '../../gen/tollgate/v1/embedding_pb.ts';
import type { Embedded } from '../../generation/embeddings/embedding-upstream.ts';
import { checkVectors, inForm } from '../../generation/embeddings/vectors.ts';
import type { DirectKind } from '../direct/direct-kind.ts';
import { countInput, estimateInput } from '../direct/input-funds.ts';
import { findEndpoint, type PreparedEmbedRequest, prepareEmbedRequest, withTexts } from './prepare-request.ts';

/** The direct endpoint for embeddings. */
export const embeddings: DirectKind<EmbedRequest, EmbedResponse, PreparedEmbedRequest, Embedded> = {
  findEndpoint,
  operation: 'embeddings',
  answer: EmbedResponseSchema,
  prepare: prepareEmbedRequest,
  estimate: estimateInput,

  async attempt({ embeddings: upstream, name }, { request, model }, call) {
    if (upstream === undefined) throw new Error(`${name.provider} embeds nothing`);
    const embedded = await upstream.embed({
      ...call,
      request: upstream.takesTokenIds ? request : await withTexts(request, model),
    });
    checkVectors(embedded.vectors, request);
    return embedded;
  },

  finish({ request, model, inputTokens: counted }, { vectors, inputTokens }, common) {
    const used = countInput(inputTokens, counted, (model.contextLength ?? Infinity) * request.inputs.length);
    return {
      used,
      response: {
        $typeName: 'tollgate.v1.EmbedResponse',
        ...common,
        vectors: vectors.map(vector => inForm(vector, request.form)),
        inputTokens: used.usage.input,
      },
    };
  },
};
