import { createClient } from '@connectrpc/connect';
import { DeltaKind, type GenerationEvent } from '../../../gen/tollgate/v1/event_pb.ts';
import { GenerationService } from '../../../gen/tollgate/v1/generation_pb.ts';
import { Role } from '../../../gen/tollgate/v1/content_pb.ts';
import type { Endpoint } from '../../../gen/tollgate/v1/request_pb.ts';
import { transport } from '../data/rpc.ts';

const generations = createClient(GenerationService, transport);

/** A request to a model. */
export interface Question {
  readonly model: string;
  readonly endpoint: Endpoint;
  readonly instructions: string;
  readonly prompt: string;
  readonly maxOutputTokens: number | undefined;
  /** The function tools that the model may call. */
  readonly tools: readonly Tool[];
  readonly image: Image | undefined;
}

/** A function that the model may call. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly parametersJson: string;
}

/** An image of the prompt. */
export interface Image {
  readonly mediaType: string;
  readonly base64: string;
}

/** The answer as far as it has arrived. */
export interface Answer {
  readonly text: string;
  readonly requestId?: string;
  readonly firstMs?: number;
  readonly totalMs?: number;
  readonly costNanoUsd?: bigint;
  readonly inputTokens?: number;
  readonly outputTokens?: number;
}

/** A tool as people paste it; each field may be any value. */
interface ToolShape {
  readonly name?: unknown;
  readonly description?: unknown;
  readonly parameters?: unknown;
}

/**
 * Reads tools from JSON: one function or a list, in the form of Chat Completions or Responses. Throws an error with the reason if the text
 * is invalid.
 */
export function readTools(json: string): readonly Tool[] {
  if (json.trim() === '') return [];
  const parsed: unknown = JSON.parse(json);
  const list: readonly unknown[] = Array.isArray(parsed) ? parsed : [parsed];
  return list.map((entry, index) => {
    const outer = entry as ({ function?: ToolShape } & ToolShape) | null;
    const tool = outer?.function ?? outer;
    if (typeof tool?.name !== 'string') throw new Error(`Tool ${index + 1} has no "name".`);
    const description = typeof tool.description === 'string' ? tool.description : '';
    return {
      name: tool.name,
      description,
      parametersJson: JSON.stringify(tool.parameters ?? { type: 'object', properties: {} }),
    };
  });
}

/**
 * Sends a request, and calls `onAnswer` with the answer each time it has grown. `key`: the API key that pays, which is only in this page's
 * memory; empty if the session pays.
 */
export async function ask(
  question: Question,
  key: string,
  signal: AbortSignal,
  onAnswer: (answer: Answer) => void,
): Promise<void> {
  const began = performance.now();
  let answer: Answer = { text: '' };
  const headers = key === '' ? {} : { headers: { authorization: `Bearer ${key}` } };
  for await (const { events } of generations.generate(toRequest(question), { signal, ...headers })) {
    answer = readAnswer(answer, events, performance.now() - began);
    onAnswer(answer);
  }
}

function toRequest({ model, endpoint, instructions, prompt, maxOutputTokens, tools, image }: Question) {
  const text = { content: { case: 'text', value: { text: prompt } } } as const;
  const imagePart =
    image &&
    ({
      content: {
        case: 'image',
        value: { source: { source: { case: 'base64', value: image.base64 }, mediaType: image.mediaType } },
      },
    } as const);
  return {
    model,
    endpoint,
    ...(instructions !== '' && { instructions }),
    ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    tools: tools.map(tool => ({ tool: { case: 'function' as const, value: tool } })),
    items: [
      {
        content: {
          case: 'message' as const,
          value: { role: Role.USER, parts: imagePart === undefined ? [text] : [text, imagePart] },
        },
      },
    ],
  };
}

/** Returns an answer after more events. `ms`: milliseconds since the request. */
export function readAnswer(before: Answer, events: readonly GenerationEvent[], ms: number): Answer {
  let answer = before;
  for (const event of events) answer = follow(answer, event, ms);
  return answer;
}

/** Returns the answer after one more event. */
function follow(answer: Answer, { event }: GenerationEvent, ms: number): Answer {
  switch (event.case) {
    case 'started':
      return { ...answer, requestId: event.value.requestId };
    case 'itemOpened': {
      const { content } = event.value.content ?? {};
      return content?.case === 'toolCall' ? { ...answer, text: `${answer.text}\n${content.value.name}: ` } : answer;
    }
    case 'delta': {
      const { kind, text } = event.value;
      const isShown = kind === DeltaKind.TEXT || kind === DeltaKind.REFUSAL || kind === DeltaKind.ARGUMENTS;
      return isShown ? { ...answer, text: answer.text + text, firstMs: answer.firstMs ?? ms } : answer;
    }
    case 'completed': {
      const { costNanoUsd, usage } = event.value;
      const {
        inputTokens = 0,
        cacheReadTokens = 0,
        cacheWrite5mTokens = 0,
        cacheWrite1hTokens = 0,
        outputTokens = 0,
      } = usage ?? {};
      const read = inputTokens + cacheReadTokens + cacheWrite5mTokens + cacheWrite1hTokens;
      return { ...answer, totalMs: ms, costNanoUsd, inputTokens: read, outputTokens };
    }
    default:
      return answer;
  }
}
