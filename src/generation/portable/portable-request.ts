import { GatewayError } from '../../errors/gateway-error.ts';
import {
  type Item,
  type Part,
  Phase,
  Protocol,
  Role,
  type ServerTool,
  type ToolResult,
  type Unknown,
} from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerateRequest, Tool } from '../../gen/tollgate/v1/request_pb.ts';
import { toolName } from '../check/check-request.ts';
import { arrangeCalls } from './arrange-calls.ts';
import { withoutBillingLine } from './billing-line.ts';
import { CallRestorer } from './call-restorer.ts';
import type { FlatNames } from './flat-names.ts';
import { offerTools } from './portable-tools.ts';
import { textPart } from './text-part.ts';
import { foundTools, plainCalls } from './provider-defined-calls.ts';

/** A request in a form that can be sent to any upstream. */
export interface PortableRequest {
  /** The translated request; the same object if nothing had to be changed. */
  readonly request: GenerateRequest;
  /** The fields that were left out, by the client's names. Each causes a warning, or with `strict` an error. */
  readonly dropped: readonly string[];
  /** Converts calls in the answer to the form that the client knows; undefined if they have it already. */
  readonly calls: CallRestorer | undefined;
}

/**
 * Translates content that only some protocols can express: unknown values, hosted tools, groups of tools, deferred tools, provider-defined tools, and results that do not directly follow their calls. `protocol`: that of the upstream, whose values stay unchanged; undefined: it has none (the built-in models). Throws `unsupported_feature` for content that the
 * model would have read but that can't be translated, and `unsupported_parameter` for calls and results that do not match. Source: docs/interfaces/README.md "Translation".
 */
export function toPortable(requested: GenerateRequest, protocol?: Protocol): PortableRequest {
  const dropped: string[] = [];
  for (const value of requested.source?.unknownValues ?? []) leaveOut(value, protocol, dropped);
  const written = withoutBillingLine(requested);
  const read = protocol === Protocol.RESPONSES ? written : plainCalls(written);
  const offer = offerTools(withFoundTools(requested, read), protocol, dropped);
  const known = read.some(item => needsWords(item, protocol))
    ? read.flatMap(item => inWords(item, protocol, dropped))
    : read;
  const named = known.some(isGrouped) ? known.map(item => withFlatName(item, offer.flat)) : known;
  const items = protocol === Protocol.RESPONSES ? named : arrangeCalls(named, requested.endpoint);
  const isSame =
    items === requested.items && offer.tools === requested.tools && offer.toolChoice === requested.toolChoice;
  if (isSame) return { request: requested, dropped, calls: undefined };
  const { toolChoice: _, ...rest } = requested;
  const { tools, toolChoice } = offer;
  const request = {
    ...rest,
    items: [...items],
    tools: [...tools],
    ...(toolChoice === undefined ? {} : { toolChoice }),
  };
  const isRestored = !offer.flat.isEmpty || offer.plain.size > 0;
  return { request, dropped, calls: isRestored ? new CallRestorer(offer.flat, offer.plain) : undefined };
}

/**
 * Returns the request with the tools that tool searches have found added to its tools, if they are missing there. `read`: the items that are sent.
 */
function withFoundTools(requested: GenerateRequest, read: readonly Item[]): GenerateRequest {
  if (read === requested.items) return requested;
  const known = new Set(requested.tools.map(wholeName));
  const found = foundTools(requested.items).filter(tool => {
    const isNew = !known.has(wholeName(tool));
    known.add(wholeName(tool));
    return isNew;
  });
  const tools = found.length === 0 ? requested.tools : [...requested.tools, ...found];
  return { ...requested, tools, items: [...read] };
}

function wholeName(tool: Tool): string {
  return `${tool.namespace?.name ?? ''} ${toolName(tool) ?? ''}`;
}

/** Throws `unsupported_feature` for the first value in a request that the gateway does not know and that the model would have read. */
export function refuseUnknown({ source, items }: GenerateRequest): void {
  const unknown = [...(source?.unknownValues ?? []), ...items.flatMap(unknownIn)].find(({ hint }) => !hint);
  if (unknown !== undefined) throw unknownContent(unknown);
}

function unknownIn({ content }: Item): Unknown[] {
  switch (content.case) {
    case 'unknown':
      return [content.value];
    case 'message':
    case 'toolResult':
    case 'reasoning':
      return content.value.parts.flatMap(part => (part.content.case === 'unknown' ? [part.content.value] : []));
    default:
      return [];
  }
}

/** Throws `unsupported_parameter` if fields of a `strict` request would be left out. */
export function refuseLoss({ strict }: { readonly strict: boolean }, dropped: readonly string[]): void {
  const [param] = dropped;
  if (param === undefined || !strict) return;
  throw new GatewayError('unsupported_parameter', `The model’s provider does not know ${dropped.join(', ')}.`, {
    param,
  });
}

/** Adds an unknown value of another protocol to `dropped` if leaving it out has no effect on the answer; throws otherwise. */
function leaveOut(unknown: Unknown, protocol: Protocol | undefined, dropped: string[]): void {
  if (unknown.protocol === protocol) return;
  if (!unknown.hint) throw unknownContent(unknown);
  if (!dropped.includes(unknown.path)) dropped.push(unknown.path);
}

/** Returns the `unsupported_feature` error for content that the gateway can't translate, in the words of the client's protocol. */
export function unknownContent({ path, message }: Unknown): GatewayError {
  return new GatewayError('unsupported_feature', message, {
    param: path,
    tip: 'The model’s provider uses another protocol, into which this can’t be translated. Leave it out, or choose a model whose provider supports it.',
  });
}

function needsWords({ content }: Item, protocol: Protocol | undefined): boolean {
  switch (content.case) {
    case 'serverTool':
      return isOthers(content.value, protocol);
    case 'unknown':
      return true;
    case 'toolResult':
      return content.value.callId === '' || content.value.parts.some(isForeign);
    case 'message':
    case 'reasoning':
      return content.value.parts.some(isForeign);
    default:
      return false;
  }
}

/** Returns whether a call or result of a tool that a provider ran is another protocol's. The built-in models read those of all. */
function isOthers({ protocol: own }: ServerTool, protocol: Protocol | undefined): boolean {
  return protocol !== undefined && own !== protocol;
}

/** Returns what a call or result of a tool that a provider ran is called: its type, or in Gemini the name of its part. */
function serverToolName({ json }: ServerTool): string {
  const value = JSON.parse(json) as Readonly<Record<string, unknown>>;
  return typeof value['type'] === 'string' ? value['type'] : Object.keys(value).join();
}

function isForeign({ content }: Part): boolean {
  return content.case === 'unknown' || content.case === 'toolReference';
}

function inWords(item: Item, protocol: Protocol | undefined, dropped: string[]): Item[] {
  const { content } = item;
  switch (content.case) {
    case 'unknown':
      leaveOut(content.value, protocol, dropped);
      return content.value.protocol === protocol ? [item] : [];
    case 'serverTool':
      // What the model said with it stays in the conversation.
      if (!isOthers(content.value, protocol)) return [item];
      if (!dropped.includes(serverToolName(content.value))) dropped.push(serverToolName(content.value));
      return [];
    case 'message': {
      const parts = partsInWords(content.value.parts, protocol, dropped);
      return [{ ...item, content: { case: 'message', value: { ...content.value, parts } } }];
    }
    case 'reasoning': {
      const parts = partsInWords(content.value.parts, protocol, dropped);
      return [{ ...item, content: { case: 'reasoning', value: { ...content.value, parts } } }];
    }
    case 'toolResult': {
      const parts = partsInWords(content.value.parts, protocol, dropped);
      const result = { ...content.value, parts, plain: content.value.plain && parts.length < 2 };
      if (content.value.callId === '' && protocol !== Protocol.RESPONSES) return [spokenBy(result, item)];
      return [{ ...item, content: { case: 'toolResult', value: result } }];
    }
    default:
      return [item];
  }
}

function partsInWords(parts: readonly Part[], protocol: Protocol | undefined, dropped: string[]): Part[] {
  return parts.flatMap(part => {
    const { content } = part;
    if (content.case === 'toolReference') return [textPart(`Found the tool ${content.value.name}.`)];
    if (content.case !== 'unknown') return [part];
    leaveOut(content.value, protocol, dropped);
    return content.value.protocol === protocol ? [part] : [];
  });
}

/** Returns output that a tool sends without a call as a developer message. */
function spokenBy({ name, namespace, parts }: ToolResult, { $typeName, id, status, turn }: Item): Item {
  const tool = [namespace, name].filter(each => each !== undefined && each !== '').join('.');
  const head = textPart(`Output of ${tool === '' ? 'a tool' : `the tool ${tool}`}:`);
  const message = { role: Role.DEVELOPER, name: '', parts: [head, ...parts], phase: Phase.UNSPECIFIED };
  return {
    $typeName,
    id,
    status,
    turn,
    content: { case: 'message', value: { $typeName: 'tollgate.v1.Message', ...message } },
  };
}

function isGrouped({ content }: Item): boolean {
  return content.case === 'toolCall' && content.value.namespace !== undefined;
}

/** Returns the call of a tool in a group with the flat name of the tool; other items unchanged. */
function withFlatName(item: Item, flat: FlatNames): Item {
  const { content } = item;
  if (content.case !== 'toolCall' || content.value.namespace === undefined) return item;
  const { namespace, name, ...call } = content.value;
  const value = { ...call, name: flat.flatten({ namespace, name }) };
  return { ...item, content: { case: 'toolCall', value } };
}
