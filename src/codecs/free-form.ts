import { type ToolCall, ToolKind } from '../gen/tollgate/v1/content_pb.ts';
import type { CustomTool, Tool } from '../gen/tollgate/v1/request_pb.ts';
import type { JsonObject } from './codec.ts';
import type { Drops } from './drops.ts';
import { objectIn, exactJson } from './json.ts';

/** Converts free-form tools and their calls for protocols whose calls take an object. */

/** The schema of a function that replaces a free-form tool: an object with one text. Source: docs/interfaces/README.md "Tool calls". */
export const freeText: JsonObject = {
  type: 'object',
  properties: { input: { type: 'string' } },
  required: ['input'],
};

/** Lists the grammar of a free-form tool at `path` as dropped: the protocol can't express it, so the model does not see it. */
export function dropGrammar({ formatJson }: CustomTool, path: string, drops: Drops): void {
  if (formatJson !== '' && formatJson !== '{"type":"text"}') drops.add(`${path}.custom.format`);
}

/** Returns the name of a tool that the client runs; '' for any other. */
export function clientToolName({ tool }: Tool): string {
  return tool.case === 'function' || tool.case === 'custom' ? tool.value.name : '';
}

/**
 * Returns the arguments of a call as an object. Text that is not a JSON object becomes the value of a single member, and is listed (case
 * TR-17).
 */
export function encodeArguments({ kind, arguments: text }: ToolCall, drops: Drops): JsonObject {
  if (kind === ToolKind.CUSTOM) return { input: text };
  if (text.trim() === '') return {};
  const input = objectIn(exactJson(text));
  if (input !== undefined) return input;
  drops.add('arguments');
  return { _unparsed: text };
}
