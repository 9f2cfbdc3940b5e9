import { Protocol } from '../gen/tollgate/v1/content_pb.ts';
import { type GenerateRequest, ReasoningEffort } from '../gen/tollgate/v1/request_pb.ts';

/** A request that a model refuses in one of its provider's protocols, or takes only in part, and the protocol in which it takes it. */
interface ModelTrait {
  /** Matches the provider's name of the model. */
  readonly model: RegExp;
  readonly refusedIn: Protocol;
  readonly takenIn: Protocol;
  /** Returns whether it refuses the request, or ignores a part of it. */
  refuses(request: GenerateRequest): boolean;
}

const hasFunctions = ({ tools }: GenerateRequest): boolean => tools.some(({ tool }) => tool.case === 'function');
const reasons = ({ reasoning }: GenerateRequest, assumed: ReasoningEffort): boolean => {
  const effort = reasoning?.effort ?? ReasoningEffort.UNSPECIFIED;
  return (effort === ReasoningEffort.UNSPECIFIED ? assumed : effort) !== ReasoningEffort.NONE;
};

/** Returns whether a request has settings that Responses lacks. */
const needsChat = ({ stop, sampling }: GenerateRequest): boolean =>
  stop.length > 0 ||
  sampling?.seed !== undefined ||
  [sampling?.frequencyPenalty, sampling?.presencePenalty].some(value => value !== undefined && value !== 0);

/** Members that models refuse although their protocol allows them. */
const modelTraits: readonly ModelTrait[] = [
  {
    // "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions": github.com/openai/openai-openapi/issues/541, 2026-11-28.
    model: /(?:^|\/)gpt-5\.4/,
    refusedIn: Protocol.CHAT,
    takenIn: Protocol.RESPONSES,
    refuses: request => hasFunctions(request) && reasons(request, ReasoningEffort.NONE),
  },
  {
    // The same without an effort, because these reason unless it is none: github.com/BerriAI/litellm/pull/34569 (gpt-5.6) and
    // github.com/jeffdafoe/llm-memory-api/pull/178 (gpt-5.5), 2026-11-28.
    model: /(?:^|\/)gpt-(?:5\.[5-9]|[6-9])/,
    refusedIn: Protocol.CHAT,
    takenIn: Protocol.RESPONSES,
    refuses: request => hasFunctions(request) && reasons(request, ReasoningEffort.MEDIUM),
  },
  {
    // Reasoning models refuse `stop` in Chat too: github.com/huggingface/smolagents/issues/1671 (gpt-5-mini) and 1893 (gpt-5.2), 2026-11-29.
    model: /(?:^|\/)(?:chat)?gpt-[34]/,
    refusedIn: Protocol.RESPONSES,
    takenIn: Protocol.CHAT,
    refuses: needsChat,
  },
  {
    // Responses has no `n`.
    model: /^/,
    refusedIn: Protocol.RESPONSES,
    takenIn: Protocol.CHAT,
    refuses: ({ candidates = 1 }) => candidates > 1,
  },
];

/** Returns the protocol in which a model takes a request that it refuses in `protocol`; undefined: it takes it there. */
export function neededProtocol(request: GenerateRequest, model: string, protocol: Protocol): Protocol | undefined {
  return modelTraits.find(trait => trait.refusedIn === protocol && trait.model.test(model) && trait.refuses(request))
    ?.takenIn;
}
