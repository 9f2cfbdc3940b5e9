import { GatewayError } from '../../errors/gateway-error.ts';
import type { Part } from '../../gen/tollgate/v1/content_pb.ts';
import type { Model } from '../../gen/tollgate/v1/catalog_pb.ts';
import { type GenerateRequest, ReasoningEffort, ThinkingMode } from '../../gen/tollgate/v1/request_pb.ts';
import { fieldName, type RequestField } from './field-names.ts';

/** Throws `unsupported_feature`, with the name of the field, if a request uses a feature that the model lacks. Source: docs/errors.md "Codes". */
export function checkFeatures(request: GenerateRequest, model: Model): void {
  const missing = (field: RequestField, what: string, capability: string): GatewayError =>
    new GatewayError('unsupported_feature', `${model.id} does not ${what}.`, {
      param: fieldName(request.endpoint, field),
      tip: `Leave it out, or choose a model with \`capabilities.${capability}\`: GET /v1/models?capability=${capability}.`,
    });
  if (!model.vision && hasImage(request)) throw missing('items', 'take images', 'vision');
  if (!model.functionCall && request.tools.length > 0) throw missing('tools', 'call tools', 'function_call');
  if (!model.reasoning && wantsReasoning(request)) throw missing('reasoning', 'reason', 'reasoning');
}

function hasImage(request: GenerateRequest): boolean {
  const isImage = (part: Part): boolean => part.content.case === 'image';
  return request.items.some(({ content }) => {
    if (content.case === 'message' || content.case === 'toolResult') return content.value.parts.some(isImage);
    return false;
  });
}

/** Returns true if a request asks for reasoning. */
export function wantsReasoning({ reasoning }: GenerateRequest): boolean {
  if (reasoning === undefined) return false;
  const { effort, thinking } = reasoning;
  if (effort !== ReasoningEffort.UNSPECIFIED && effort !== ReasoningEffort.NONE) return true;
  return thinking !== ThinkingMode.UNSPECIFIED && thinking !== ThinkingMode.DISABLED;
}
