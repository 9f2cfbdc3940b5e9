import type { JsonObject } from '../../codecs/codec.ts';
import { chatProtocol, messagesProtocol, responsesProtocol, type UpstreamProtocol } from '../protocols.ts';
import type { AwsCredentialSettings } from './aws-credentials.ts';
import { pathSegment } from './path-segment.ts';

/** How Amazon Bedrock is reached. */
export interface BedrockSettings {
  readonly kind: 'bedrock';
  readonly region: string;
  /** `runtime`: InvokeModel for Claude; `mantle`: the models' own protocols. */
  readonly endpoint: 'runtime' | 'mantle';
  /** Absent: where AWS's library finds them. */
  readonly credentials?: AwsCredentialSettings;
}

/** The protocols of Bedrock by their names. */
type BedrockProtocols = Readonly<Record<'messages' | 'responses' | 'chat', UpstreamProtocol>>;

/** Matches ids, inference profiles and ARNs of Claude. The id of an application's inference profile does not tell its model; most are for Claude. */
const claude = /(?:^|[./])anthropic\.|:application-inference-profile\//;

/** Returns the protocols of an endpoint: Messages for Claude, Responses and Chat for all other models. */
export function bedrockProtocols({ endpoint }: BedrockSettings): BedrockProtocols {
  const others = {
    responses: belowOpenai(responsesProtocol, '/responses'),
    chat: belowOpenai(chatProtocol, '/chat/completions'),
  };
  return { messages: endpoint === 'mantle' ? mantleMessages : invokeModel, ...others };
}

/** InvokeModel. Source: docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages-request-response.html, 2026-11-28. */
const invokeModel: UpstreamProtocol = {
  ...messagesProtocol,
  authentication: 'bearer',
  headers: { accept: 'application/json' },
  serves: model => claude.test(model),
  path: (model, whole) => `/model/${pathSegment(model)}/${whole ? 'invoke' : 'invoke-with-response-stream'}`,
  adapt: adaptInvocation,
  listPath: undefined,
};

const mantleMessages: UpstreamProtocol = {
  ...messagesProtocol,
  authentication: 'bearer',
  serves: model => claude.test(model),
  path: () => '/anthropic/v1/messages',
  listPath: undefined,
};

/** Matches the refusal of a model that is served below the other prefix. Source: docs.aws.amazon.com/bedrock/latest/userguide/bedrock-mantle.html, 2026-11-28. */
const otherRoute = /isn['’]t supported on this route/i;

/** Returns a protocol of OpenAI at an endpoint. Some models are served below `/v1`, not `/openai/v1`: what a model refuses is remembered. */
function belowOpenai(protocol: UpstreamProtocol, path: string): UpstreamProtocol {
  const { embeddings: _, completions: __, rerankPath: ___, ...rest } = protocol;
  const isPlain = new Map<string, boolean>();
  const place = (model: string): string => `${isPlain.get(model) === true ? '' : '/openai'}/v1${path}`;
  return {
    ...rest,
    serves: model => !claude.test(model),
    path: place,
    listPath: '/openai/v1/models',
    reroute(model, _whole, body) {
      if (!otherRoute.test(body)) return undefined;
      isPlain.set(model, isPlain.get(model) !== true);
      return place(model);
    },
  };
}

/** The model is in the path, and the path says whether the answer is a stream; versions travel in the body. */
function adaptInvocation(body: JsonObject, { 'anthropic-beta': betas }: Readonly<Record<string, string>>) {
  const { model: _, stream: __, ...rest } = body;
  const beta = betas === undefined ? {} : { anthropic_beta: betas.split(',').map(each => each.trim()) };
  return { body: { anthropic_version: 'bedrock-2023-05-31', ...beta, ...rest }, headers: {} };
}
