import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import type { Tool } from '../../gen/tollgate/v1/request_pb.ts';

/**
 * A tool that the client runs and that only one provider's models know in its original form, converted to a function. Source: docs/interfaces/README.md "Tools
 * of one provider".
 */
export interface ProviderDefinedTool {
  /** The name under which the model calls it. */
  readonly name: string;
  /** The type of its calls if the protocol has a special one ("shell_call"); undefined: its calls are those of a function. */
  readonly callType: string | undefined;
  readonly tool: Tool;
}

type Properties = Readonly<Record<string, object>>;

interface ProviderDefinedForm {
  readonly protocol: Protocol;
  /** The pattern of the tool's type; in Messages it contains a date. */
  readonly type: RegExp;
  readonly description: string;
  readonly properties: Properties;
  readonly required: readonly string[];
  readonly callType?: string;
}

const text = { type: 'string' };
const count = { type: 'integer' };
const texts = { type: 'array', items: text };
const place = { type: 'array', items: count, minItems: 2, maxItems: 2 };

function enumSchema(...values: string[]): object {
  return { ...text, enum: values };
}

const forms: readonly ProviderDefinedForm[] = [
  {
    protocol: Protocol.MESSAGES,
    type: /^bash_\d+$/,
    description: 'Runs a command in a bash session that keeps its state between calls.',
    properties: { command: text, restart: { type: 'boolean', description: 'Starts the session anew.' } },
    required: [],
  },
  {
    protocol: Protocol.MESSAGES,
    type: /^text_editor_\d+$/,
    description: 'Views, creates and edits text files.',
    properties: {
      command: enumSchema('view', 'create', 'str_replace', 'insert', 'undo_edit'),
      path: text,
      file_text: text,
      old_str: text,
      new_str: text,
      insert_line: count,
      insert_text: text,
      view_range: place,
    },
    required: ['command', 'path'],
  },
  {
    protocol: Protocol.MESSAGES,
    type: /^memory_\d+$/,
    description: 'Keeps notes between conversations, as files below /memories.',
    properties: {
      command: enumSchema('view', 'create', 'str_replace', 'insert', 'delete', 'rename'),
      path: text,
      file_text: text,
      old_str: text,
      new_str: text,
      insert_line: count,
      insert_text: text,
      old_path: text,
      new_path: text,
      view_range: place,
    },
    required: ['command'],
  },
  {
    protocol: Protocol.MESSAGES,
    type: /^computer_\d+$/,
    description: 'Uses a computer by its screen, mouse and keyboard.',
    properties: {
      action: { ...text, description: 'screenshot, left_click, type, key, mouse_move, scroll, wait, …' },
      coordinate: place,
      start_coordinate: place,
      text,
      scroll_direction: enumSchema('up', 'down', 'left', 'right'),
      scroll_amount: count,
      duration: { type: 'number' },
      region: { type: 'array', items: count, minItems: 4, maxItems: 4 },
    },
    required: ['action'],
  },
  {
    protocol: Protocol.RESPONSES,
    type: /^local_shell$/,
    description: 'Runs a program on the user’s computer.',
    properties: {
      command: { ...texts, description: 'The program and its arguments.' },
      env: { type: 'object', additionalProperties: text },
      timeout_ms: count,
      user: text,
      working_directory: text,
    },
    required: ['command'],
    callType: 'local_shell_call',
  },
  {
    protocol: Protocol.RESPONSES,
    type: /^shell$/,
    description: 'Runs shell commands on the user’s computer.',
    properties: { commands: texts, timeout_ms: count, max_output_length: count },
    required: ['commands'],
    callType: 'shell_call',
  },
  {
    protocol: Protocol.RESPONSES,
    type: /^apply_patch$/,
    description: 'Creates, updates or deletes one file by a diff in the V4A format.',
    properties: { type: enumSchema('create_file', 'update_file', 'delete_file'), path: text, diff: text },
    required: ['type', 'path'],
    callType: 'apply_patch_call',
  },
  {
    protocol: Protocol.RESPONSES,
    type: /^tool_search$/,
    description: 'Finds tools for a task; those that are found can be called afterwards.',
    properties: { query: text },
    required: ['query'],
    callType: 'tool_search_call',
  },
];

/** The members of a provider-defined tool. */
interface ProviderDefinedMembers {
  readonly name?: unknown;
  readonly description?: unknown;
  readonly parameters?: unknown;
  /** Who runs a tool search: "client"; any other value: the upstream. */
  readonly execution?: unknown;
}

/** Converts a hosted tool to a function if the client runs it; undefined if an upstream runs it. */
export function toProviderDefinedTool({ tool, cache }: Tool): ProviderDefinedTool | undefined {
  if (tool.case !== 'hosted') return undefined;
  const { protocol, type, json } = tool.value;
  const form = forms.find(each => each.protocol === protocol && each.type.test(type));
  if (form === undefined) return undefined;
  // The codecs have checked that the JSON of a hosted tool is an object.
  const said = JSON.parse(json) as ProviderDefinedMembers;
  if (type === 'tool_search' && said.execution !== 'client') return undefined;
  const name = typeof said.name === 'string' ? said.name : type;
  const description = typeof said.description === 'string' ? said.description : form.description;
  const own = typeof said.parameters === 'object' && said.parameters !== null ? said.parameters : undefined;
  const parametersJson = JSON.stringify(
    own ?? { type: 'object', properties: form.properties, required: form.required },
  );
  const value = { $typeName: 'tollgate.v1.FunctionTool', name, description, parametersJson } as const;
  const plain: Tool = { $typeName: 'tollgate.v1.Tool', tool: { case: 'function', value } };
  return {
    name,
    callType: form.callType,
    tool: cache === undefined ? plain : { ...plain, cache },
  };
}
