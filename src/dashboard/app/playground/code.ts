import { Endpoint } from '../../../gen/tollgate/v1/request_pb.ts';
import type { Question } from './ask.ts';

/** An interface for text. */
export interface TextInterface {
  readonly endpoint: Endpoint;
  /** Its path, as models list it. */
  readonly path: string;
  readonly name: string;
  /** Returns a question as the body of a request. */
  readonly toBody: (question: Question) => Record<string, unknown>;
  /** Returns the path that a streamed request for a model is sent to; absence means `path`. */
  readonly streamPath?: (model: string) => string;
}

/** The interfaces for text. The first one is chosen if no other is. */
export const interfaces: readonly [TextInterface, ...TextInterface[]] = [
  { endpoint: Endpoint.CHAT_COMPLETIONS, path: '/v1/chat/completions', name: 'Chat Completions', toBody: chatBody },
  { endpoint: Endpoint.RESPONSES, path: '/v1/responses', name: 'Responses', toBody: responsesBody },
  { endpoint: Endpoint.MESSAGES, path: '/v1/messages', name: 'Messages', toBody: messagesBody },
  {
    endpoint: Endpoint.GEMINI,
    path: '/v1beta/models/{model}:generateContent',
    name: 'Gemini',
    toBody: geminiBody,
    streamPath: model => `/v1beta/models/${model}:streamGenerateContent?alt=sse`,
  },
];

/** A placeholder for an image's bytes in a curl command. */
const imageText = 'BASE64_OF_THE_IMAGE';
/** The output limit that is sent if none is entered, because Messages requires one. */
const messagesMaxTokens = 1024;

function chatBody({ model, instructions, prompt, maxOutputTokens, tools, image }: Question): Record<string, unknown> {
  const url = image && `data:${image.mediaType};base64,${imageText}`;
  const content =
    url === undefined
      ? prompt
      : [
          { type: 'text', text: prompt },
          { type: 'image_url', image_url: { url } },
        ];
  return {
    model,
    stream: true,
    ...(maxOutputTokens !== undefined && { max_completion_tokens: maxOutputTokens }),
    messages: [...(instructions === '' ? [] : [{ role: 'system', content: instructions }]), { role: 'user', content }],
    ...(tools.length > 0 && {
      tools: tools.map(({ name, description, parametersJson }) => ({
        type: 'function',
        function: { name, description, parameters: JSON.parse(parametersJson) as unknown },
      })),
    }),
  };
}

function responsesBody({
  model,
  instructions,
  prompt,
  maxOutputTokens,
  tools,
  image,
}: Question): Record<string, unknown> {
  const url = image && `data:${image.mediaType};base64,${imageText}`;
  const parts = [
    { type: 'input_text', text: prompt },
    { type: 'input_image', image_url: url },
  ];
  return {
    model,
    stream: true,
    ...(instructions !== '' && { instructions }),
    ...(maxOutputTokens !== undefined && { max_output_tokens: maxOutputTokens }),
    input: url === undefined ? prompt : [{ role: 'user', content: parts }],
    ...(tools.length > 0 && {
      tools: tools.map(({ name, description, parametersJson }) => ({
        type: 'function',
        name,
        description,
        parameters: JSON.parse(parametersJson) as unknown,
      })),
    }),
  };
}

function messagesBody({
  model,
  instructions,
  prompt,
  maxOutputTokens,
  tools,
  image,
}: Question): Record<string, unknown> {
  const source = image && { type: 'base64', media_type: image.mediaType, data: imageText };
  return {
    model,
    stream: true,
    max_tokens: maxOutputTokens ?? messagesMaxTokens,
    ...(instructions !== '' && { system: instructions }),
    messages: [
      {
        role: 'user',
        content:
          source === undefined
            ? prompt
            : [
                { type: 'text', text: prompt },
                { type: 'image', source },
              ],
      },
    ],
    ...(tools.length > 0 && {
      tools: tools.map(({ name, description, parametersJson }) => ({
        name,
        description,
        input_schema: JSON.parse(parametersJson) as unknown,
      })),
    }),
  };
}

function geminiBody({ instructions, prompt, maxOutputTokens, tools, image }: Question): Record<string, unknown> {
  const inlineData = image && { mimeType: image.mediaType, data: imageText };
  const functionDeclarations = tools.map(({ name, description, parametersJson }) => ({
    name,
    description,
    parametersJsonSchema: JSON.parse(parametersJson) as unknown,
  }));
  return {
    ...(instructions !== '' && { systemInstruction: { parts: [{ text: instructions }] } }),
    contents: [{ role: 'user', parts: [{ text: prompt }, ...(inlineData === undefined ? [] : [{ inlineData }])] }],
    ...(tools.length > 0 && { tools: [{ functionDeclarations }] }),
    ...(maxOutputTokens !== undefined && { generationConfig: { maxOutputTokens } }),
  };
}
