import { generationErrors, generationHeaders, type Operation } from '../operation.ts';
import { completion, completionsRequest } from '../shapes/completions.ts';

/** The operation of Completions, OpenAI's interface before Chat. */
export const completionOperations: readonly Operation[] = [
  {
    method: 'post',
    path: '/v1/completions',
    id: 'createCompletion',
    tag: 'Completions',
    summary: 'Continue a text (Completions)',
    description:
      'Only for models whose `endpoints` contain this path. With `stream: true` each event is a chunk of the same form, and the last one is `[DONE]`.',
    access: 'api_key',
    parameters: generationHeaders,
    body: {
      schema: completionsRequest,
      examples: {
        plain: { summary: 'A text', value: { model: 'sim/small', prompt: 'Once upon a time', max_tokens: 32 } },
        stream: {
          summary: 'A stream with its usage',
          value: {
            model: 'sim/small',
            prompt: 'Once upon a time',
            max_tokens: 32,
            stream: true,
            stream_options: { include_usage: true },
          },
        },
      },
    },
    answers: {
      200: {
        description: 'The answers.',
        schema: completion,
        others: {
          'text/event-stream': {
            description: 'Chunks of the answers.',
            example:
              'data: {"id":"cmpl-1","object":"text_completion","choices":[{"text":" there","index":0}]}\n\ndata: [DONE]\n\n',
          },
        },
        headers: ['x-tollgate-cost', 'x-tollgate-route', 'x-tollgate-warnings'],
      },
    },
    errors: generationErrors,
  },
];
