import type Anthropic from '@anthropic-ai/sdk';
import type * as Google from '@google/genai';
import type OpenAI from 'openai';

/** The types of what official clients send and read, by client. */
export interface Roots {
  readonly openai: {
    readonly chat:
      | OpenAI.Chat.ChatCompletionCreateParams
      | OpenAI.Chat.ChatCompletion
      | OpenAI.Chat.ChatCompletionChunk;
    readonly completions: OpenAI.CompletionCreateParams | OpenAI.Completion;
    readonly responses: OpenAI.Responses.ResponseCreateParams | OpenAI.Responses.ResponseCompactParams;
    readonly responsesAnswer: OpenAI.Responses.Response | OpenAI.Responses.ResponseStreamEvent;
    readonly embeddings: OpenAI.EmbeddingCreateParams | OpenAI.CreateEmbeddingResponse;
    readonly images: OpenAI.Images.ImageGenerateParams | OpenAI.Images.ImageEditParams;
    readonly imagesAnswer: OpenAI.ImagesResponse | OpenAI.ImageGenStreamEvent | OpenAI.ImageEditStreamEvent;
  };
  readonly anthropic: {
    readonly messages: Anthropic.MessageCreateParams | Anthropic.Message | Anthropic.RawMessageStreamEvent;
    readonly beta: Anthropic.Beta.Messages.MessageCreateParams;
    readonly betaAnswer: Anthropic.Beta.BetaMessage | Anthropic.Beta.BetaRawMessageStreamEvent;
    readonly count: Anthropic.MessageCountTokensParams | Anthropic.Beta.Messages.MessageCountTokensParams;
  };
  readonly google: {
    readonly generate: Google.GenerateContentParameters | Google.GenerateContentResponse;
    readonly embed: Google.EmbedContentParameters | Google.EmbedContentResponse;
  };
}
