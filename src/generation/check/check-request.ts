import { GatewayError } from '../../errors/gateway-error.ts';
import { type Item, type Part, Role } from '../../gen/tollgate/v1/content_pb.ts';
import { type GenerateRequest, type Tool, ToolChoiceMode } from '../../gen/tollgate/v1/request_pb.ts';
import { fieldName, type RequestField } from './field-names.ts';

/**
 * Checks a request by the rules that all interfaces share. The edge's schemas check public bodies before this. The ranges are those of docs/interfaces/README.md "Requests"; an interface with narrower ranges has them in its schema.
 */
export function checkRequest(request: GenerateRequest): void {
  checkNumbers(request);
  if (request.items.length === 0) throw invalid(request, 'items', 'must have at least one entry');
  if (request.stop.some(text => text === ''))
    throw invalid(request, 'items', 'a stop sequence must not be empty', 'stop');
  let index = 0;
  for (const item of request.items) {
    checkItem(request, item, index);
    index += 1;
  }
  checkTools(request);
  checkBudget(request);
}

function invalid(request: GenerateRequest, field: RequestField, message: string, param?: string): GatewayError {
  const name = param ?? fieldName(request.endpoint, field);
  return new GatewayError('validation_error', `${name}: ${message}.`, {
    param: name,
    violations: [{ path: name.split('.'), message, type: 'invalid_value' }],
  });
}

function checkNumbers(request: GenerateRequest): void {
  const { sampling } = request;
  const check = (name: string, value: number | undefined, min: number, max: number): void => {
    if (value === undefined || (value >= min && value <= max)) return;
    const allowed = max === 2 ** 32 ? `must be at least ${min}` : `must be from ${min} to ${max}`;
    throw invalid(request, 'items', allowed, name);
  };
  check('temperature', sampling?.temperature, 0, 2);
  check('top_p', sampling?.topP, 0, 1);
  check('frequency_penalty', sampling?.frequencyPenalty, -2, 2);
  check('presence_penalty', sampling?.presencePenalty, -2, 2);
  check('top_logprobs', sampling?.topLogprobs, 0, 20);
  check(
    fieldName(request.endpoint, 'max_output_tokens'),
    request.maxOutputTokens,
    request.echo === true ? 0 : 1,
    2 ** 32,
  );
  check(fieldName(request.endpoint, 'candidates'), request.candidates, 1, 128);
  check('max_tool_calls', request.maxToolCalls, 1, 2 ** 32);
}

function checkItem(request: GenerateRequest, item: Item, index: number): void {
  const { content } = item;
  // A function, because the path is needed only for an error.
  const at = (): string => `${fieldName(request.endpoint, 'items')}.${index}`;
  if (content.case === undefined) throw invalid(request, 'items', 'an item must have a known type', at());
  if (content.case === 'message' && content.value.role === Role.UNSPECIFIED)
    throw invalid(request, 'items', 'a message needs a role', `${at()}.role`);
  const hasParts = content.case === 'message' || content.case === 'toolResult';
  if (hasParts && content.value.parts.some(isNothing))
    throw invalid(request, 'items', 'a part must have a known type', at());
}

function isNothing({ content }: Part): boolean {
  return content.case === undefined;
}

/** Returns a tool's name; undefined for tools that an upstream runs itself. */
export function toolName({ tool }: Tool): string | undefined {
  return tool.case === 'function' || tool.case === 'custom' ? tool.value.name : undefined;
}

function checkTools(request: GenerateRequest): void {
  if (request.tools.length === 0 && request.toolChoice === undefined) return;
  const names = new Set<string>();
  const wholeNames = new Set<string>();
  for (const [index, tool] of request.tools.entries()) {
    const name = toolName(tool);
    if (name === undefined) continue;
    // Names must be unique within their group.
    const whole = tool.namespace === undefined ? name : `${tool.namespace.name}.${name}`;
    if (wholeNames.has(whole)) throw invalid(request, 'tools', `there are two tools named ${whole}`, `tools.${index}`);
    wholeNames.add(whole);
    names.add(name);
  }
  const { toolChoice } = request;
  if (toolChoice === undefined) return;
  const hosted = request.tools.some(tool => tool.tool.case === 'hosted');
  const missing = toolChoice.tools.find(tool => !names.has(tool.name));
  if (missing !== undefined && !hosted)
    throw invalid(request, 'tool_choice', `names ${missing.name}, which is not among the tools`);
  const forced = toolChoice.mode === ToolChoiceMode.REQUIRED || toolChoice.mode === ToolChoiceMode.NAMED;
  if (forced && request.tools.length === 0)
    throw invalid(request, 'tool_choice', 'asks for a call, but there are no tools');
}

function checkBudget(request: GenerateRequest): void {
  const { reasoning, maxOutputTokens } = request;
  if (reasoning?.budgetTokens === undefined || maxOutputTokens === undefined) return;
  if (reasoning.budgetTokens >= maxOutputTokens) {
    throw invalid(request, 'reasoning', 'budget_tokens must be below the output limit', 'thinking.budget_tokens');
  }
}
