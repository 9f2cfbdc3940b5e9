/**
 * Bad bodies of POST /v1/chat/completions, each with the answer that docs/errors.md "Codes" and
 * docs/interfaces/chat-completions.md "Request" define. `chat-bad-requests.test.ts` tests the rows that the decoder,
 * the check of requests or the translation refuses; `test/e2e/bad-requests.e2e.test.ts` sends every row to a running gateway.
 */

/** One bad request. */
export interface BadRequest {
  readonly name: string;
  /** The body; a string is sent unchanged. */
  readonly body: unknown;
  readonly status: number;
  readonly code: string;
  /** The field that the error names; null: none. */
  readonly param: string | null;
}

type Fields = Readonly<Record<string, unknown>>;

const model = 'sim/small';
const user = { role: 'user', content: 'Hello' };
const fn = { type: 'function', function: { name: 'get_weather', parameters: { type: 'object', properties: {} } } };
const call = { id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{}' } };
const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

/** Returns a body that is valid except for `fields`. */
const ask = (fields: Fields): Fields => ({ model, messages: [user], ...fields });
/** Returns a body that is valid except for its messages. */
const say = (...messages: readonly unknown[]): Fields => ({ model, messages });
/** Returns a body that is valid except for one part of a user's message. */
const part = (value: unknown): Fields => say({ role: 'user', content: [value] });
/** Returns a body that is valid except for one tool. */
const tool = (value: unknown): Fields => ask({ tools: [value] });
/** Returns a body that is valid except for the fields of its one function. */
const named = (fields: Fields): Fields => tool({ type: 'function', function: fields });
/** Returns a body that is valid except for the address of its one image. */
const image = (value: unknown): Fields => part({ type: 'image_url', image_url: value });
const format = (value: unknown): Fields => ask({ response_format: value });
const schema = (value: unknown): Fields => format({ type: 'json_schema', json_schema: value });

type Row = readonly [name: string, body: unknown, param: string | null];

/** 422 `validation_error`: bodies that parse but violate the schema. */
const invalid: readonly Row[] = [
  ['an array as the body', [], null],
  ['a string as the body', '"hello"', null],
  ['a number as the body', '7', null],
  ['null as the body', 'null', null],
  ['true as the body', 'true', null],

  ['no model and no messages', {}, 'model'],
  ['no model', { messages: [user] }, 'model'],
  ['model null', { model: null, messages: [user] }, 'model'],
  ['model a number', { model: 5, messages: [user] }, 'model'],
  ['model an empty string', { model: '', messages: [user] }, 'model'],
  ['model an object', { model: { id: model }, messages: [user] }, 'model'],

  ['no messages', { model }, 'messages'],
  ['messages null', { model, messages: null }, 'messages'],
  ['messages a string', { model, messages: 'Hello' }, 'messages'],
  ['messages an object', { model, messages: user }, 'messages'],
  ['messages empty', { model, messages: [] }, 'messages'],
  ['a message that is a string', say('Hello'), 'messages.0'],
  ['a message that is null', say(null), 'messages.0'],
  ['a message that is an array', say([user]), 'messages.0'],
  ['a message without a role', say({ content: 'Hello' }), 'messages.0.role'],
  ['a message whose role is a number', say({ role: 1, content: 'Hello' }), 'messages.0.role'],
  ['a message whose role is null', say({ role: null, content: 'Hello' }), 'messages.0.role'],
  ['a user without content', say({ role: 'user' }), 'messages.0.content'],
  ['a user with content null', say({ role: 'user', content: null }), 'messages.0.content'],
  ['a user with a number as content', say({ role: 'user', content: 5 }), 'messages.0.content'],
  ['a user with an object as content', say({ role: 'user', content: { text: 'Hello' } }), 'messages.0.content'],
  ['a user with an empty list of parts', say({ role: 'user', content: [] }), 'messages.0.content'],
  ['a user whose name is a number', say({ ...user, name: 5 }), 'messages.0.name'],
  ['a user whose name is empty', say({ ...user, name: '' }), 'messages.0.name'],
  ['a system message without content', say({ role: 'system' }, user), 'messages.0.content'],
  ['a developer message with a number as content', say({ role: 'developer', content: 1 }, user), 'messages.0.content'],

  ['a part that is a string', part('Hello'), 'messages.0.content.0'],
  ['a part that is null', part(null), 'messages.0.content.0'],
  ['a part without a type', part({ text: 'Hello' }), 'messages.0.content.0.type'],
  ['a text part without a text', part({ type: 'text' }), 'messages.0.content.0.text'],
  ['a text part whose text is a number', part({ type: 'text', text: 5 }), 'messages.0.content.0.text'],
  ['a text part whose text is null', part({ type: 'text', text: null }), 'messages.0.content.0.text'],
  [
    'the second part is wrong',
    say({ role: 'user', content: [{ type: 'text', text: 'a' }, { type: 'text' }] }),
    'messages.0.content.1.text',
  ],
  ['an image without image_url', part({ type: 'image_url' }), 'messages.0.content.0.image_url'],
  ['an image whose image_url is a number', image(5), 'messages.0.content.0.image_url'],
  ['an image without a url', image({}), 'messages.0.content.0.image_url.url'],
  ['an image with an empty url', image({ url: '' }), 'messages.0.content.0.image_url.url'],
  ['an image with a number as url', image({ url: 5 }), 'messages.0.content.0.image_url.url'],
  ['an image with a file URL', image({ url: 'file:///etc/passwd' }), 'messages.0.content.0.image_url.url'],
  ['an image over ftp', image({ url: 'ftp://example.com/a.png' }), 'messages.0.content.0.image_url.url'],
  ['an image whose url is relative', image({ url: 'a.png' }), 'messages.0.content.0.image_url.url'],
  ['an image without a host', image({ url: 'https://' }), 'messages.0.content.0.image_url.url'],
  ['a data URL that is not base64', image({ url: 'data:image/png,hello' }), 'messages.0.content.0.image_url.url'],
  ['a data URL without data', image({ url: 'data:image/png;base64,' }), 'messages.0.content.0.image_url.url'],
  ['a data URL with broken base64', image({ url: 'data:image/png;base64,%%%' }), 'messages.0.content.0.image_url.url'],
  ['a data URL with cut base64', image({ url: 'data:image/png;base64,iVBOR' }), 'messages.0.content.0.image_url.url'],
  ['a data URL without a type', image({ url: `data:;base64,${png}` }), 'messages.0.content.0.image_url.url'],
  ['audio without input_audio', part({ type: 'input_audio' }), 'messages.0.content.0.input_audio'],
  [
    'audio without data',
    part({ type: 'input_audio', input_audio: { format: 'wav' } }),
    'messages.0.content.0.input_audio.data',
  ],
  [
    'audio that is not base64',
    part({ type: 'input_audio', input_audio: { data: 'not base64!', format: 'wav' } }),
    'messages.0.content.0.input_audio.data',
  ],
  ['a file without file', part({ type: 'file' }), 'messages.0.content.0.file'],
  ['a file without data or id', part({ type: 'file', file: { filename: 'a.pdf' } }), 'messages.0.content.0.file'],
  [
    'a file that is not base64',
    part({ type: 'file', file: { file_data: 'not base64!' } }),
    'messages.0.content.0.file.file_data',
  ],
  ['a file whose id is a number', part({ type: 'file', file: { file_id: 5 } }), 'messages.0.content.0.file.file_id'],

  ['an assistant without content or calls', say(user, { role: 'assistant' }, user), 'messages.1.content'],
  ['an assistant with content null', say(user, { role: 'assistant', content: null }, user), 'messages.1.content'],
  [
    'an assistant with content null and an empty list of calls',
    say(user, { role: 'assistant', content: null, tool_calls: [] }, user),
    'messages.1.content',
  ],
  ['a refusal that is a number', say(user, { role: 'assistant', refusal: 5 }), 'messages.1.refusal'],
  ['tool_calls an object', say(user, { role: 'assistant', tool_calls: call }), 'messages.1.tool_calls'],
  ['a call that is a string', say(user, { role: 'assistant', tool_calls: ['x'] }), 'messages.1.tool_calls.0'],
  [
    'a call without an id',
    say(user, { role: 'assistant', tool_calls: [{ type: 'function', function: call.function }] }),
    'messages.1.tool_calls.0.id',
  ],
  [
    'a call with an empty id',
    say(user, { role: 'assistant', tool_calls: [{ ...call, id: '' }] }),
    'messages.1.tool_calls.0.id',
  ],
  [
    'a call without a type',
    say(user, { role: 'assistant', tool_calls: [{ id: 'call_1', function: call.function }] }),
    'messages.1.tool_calls.0.type',
  ],
  [
    'a call without its function',
    say(user, { role: 'assistant', tool_calls: [{ id: 'call_1', type: 'function' }] }),
    'messages.1.tool_calls.0.function',
  ],
  [
    'a call without a name',
    say(user, { role: 'assistant', tool_calls: [{ ...call, function: { arguments: '{}' } }] }),
    'messages.1.tool_calls.0.function.name',
  ],
  [
    'a call without arguments',
    say(user, { role: 'assistant', tool_calls: [{ ...call, function: { name: 'f' } }] }),
    'messages.1.tool_calls.0.function.arguments',
  ],
  [
    'a call whose arguments are an object',
    say(user, { role: 'assistant', tool_calls: [{ ...call, function: { name: 'f', arguments: {} } }] }),
    'messages.1.tool_calls.0.function.arguments',
  ],
  [
    'a custom call without input',
    say(user, { role: 'assistant', tool_calls: [{ id: 'call_1', type: 'custom', custom: { name: 'f' } }] }),
    'messages.1.tool_calls.0.custom.input',
  ],
  [
    'a deprecated call without arguments',
    say(user, { role: 'assistant', function_call: { name: 'f' } }),
    'messages.1.function_call.arguments',
  ],
  ['a tool result without tool_call_id', say(user, { role: 'tool', content: 'ok' }), 'messages.1.tool_call_id'],
  [
    'a tool result with a number as tool_call_id',
    say(user, { role: 'tool', tool_call_id: 1, content: 'ok' }),
    'messages.1.tool_call_id',
  ],
  [
    'a tool result without content',
    say(user, { role: 'assistant', tool_calls: [call] }, { role: 'tool', tool_call_id: 'call_1' }),
    'messages.2.content',
  ],
  ['a function result without a name', say(user, { role: 'function', content: 'ok' }), 'messages.1.name'],
  [
    'reasoning that is a number',
    say(user, { role: 'assistant', reasoning_content: 5 }),
    'messages.1.reasoning_content',
  ],
  [
    'reasoning_details that are not a list',
    say(user, { role: 'assistant', content: 'x', reasoning_details: {} }),
    'messages.1.reasoning_details',
  ],

  ['temperature below 0', ask({ temperature: -0.1 }), 'temperature'],
  ['temperature above 2', ask({ temperature: 2.1 }), 'temperature'],
  ['temperature a string', ask({ temperature: '1' }), 'temperature'],
  [
    'temperature infinite',
    `{"model":"${model}","messages":[{"role":"user","content":"Hi"}],"temperature":1e999}`,
    'temperature',
  ],
  ['top_p below 0', ask({ top_p: -0.1 }), 'top_p'],
  ['top_p above 1', ask({ top_p: 1.1 }), 'top_p'],
  ['top_p true', ask({ top_p: true }), 'top_p'],
  ['frequency_penalty below -2', ask({ frequency_penalty: -2.1 }), 'frequency_penalty'],
  ['frequency_penalty above 2', ask({ frequency_penalty: 2.1 }), 'frequency_penalty'],
  ['presence_penalty below -2', ask({ presence_penalty: -3 }), 'presence_penalty'],
  ['presence_penalty above 2', ask({ presence_penalty: 3 }), 'presence_penalty'],
  ['presence_penalty a string', ask({ presence_penalty: 'low' }), 'presence_penalty'],
  ['max_tokens 0', ask({ max_tokens: 0 }), 'max_tokens'],
  ['max_tokens negative', ask({ max_tokens: -1 }), 'max_tokens'],
  ['max_tokens a fraction', ask({ max_tokens: 10.5 }), 'max_tokens'],
  ['max_tokens a string', ask({ max_tokens: '10' }), 'max_tokens'],
  ['max_completion_tokens 0', ask({ max_completion_tokens: 0 }), 'max_completion_tokens'],
  ['max_completion_tokens a fraction', ask({ max_completion_tokens: 1.5 }), 'max_completion_tokens'],
  ['two different limits', ask({ max_tokens: 10, max_completion_tokens: 20 }), 'max_completion_tokens'],
  ['five stop sequences', ask({ stop: ['a', 'b', 'c', 'd', 'e'] }), 'stop'],
  ['stop a number', ask({ stop: 5 }), 'stop'],
  ['stop an empty string', ask({ stop: '' }), 'stop'],
  ['stop with an empty string', ask({ stop: ['a', ''] }), 'stop.1'],
  ['stop with a number', ask({ stop: ['a', 5] }), 'stop.1'],
  ['stop with null', ask({ stop: [null] }), 'stop.0'],
  ['stop an object', ask({ stop: { text: 'a' } }), 'stop'],
  ['n 0', ask({ n: 0 }), 'n'],
  ['n negative', ask({ n: -1 }), 'n'],
  ['n above 128', ask({ n: 129 }), 'n'],
  ['n a fraction', ask({ n: 1.5 }), 'n'],
  ['n a string', ask({ n: '2' }), 'n'],
  ['seed a fraction', ask({ seed: 1.5 }), 'seed'],
  ['seed a string', ask({ seed: 'abc' }), 'seed'],
  ['seed above 64 bits', ask({ seed: 1e20 }), 'seed'],
  ['logprobs a number', ask({ logprobs: 5 }), 'logprobs'],
  ['top_logprobs without logprobs', ask({ top_logprobs: 3 }), 'top_logprobs'],
  ['top_logprobs with logprobs false', ask({ logprobs: false, top_logprobs: 3 }), 'top_logprobs'],
  ['top_logprobs negative', ask({ logprobs: true, top_logprobs: -1 }), 'top_logprobs'],
  ['top_logprobs above 20', ask({ logprobs: true, top_logprobs: 21 }), 'top_logprobs'],
  ['top_logprobs a fraction', ask({ logprobs: true, top_logprobs: 1.5 }), 'top_logprobs'],
  ['logit_bias above 100', ask({ logit_bias: { 50256: 101 } }), 'logit_bias.50256'],
  ['logit_bias below -100', ask({ logit_bias: { 50256: -101 } }), 'logit_bias.50256'],
  ['logit_bias a string', ask({ logit_bias: { 50256: 'high' } }), 'logit_bias.50256'],
  ['logit_bias of a word', ask({ logit_bias: { hello: 1 } }), 'logit_bias.hello'],

  ['response_format a string', format('json'), 'response_format'],
  ['response_format without a type', format({}), 'response_format.type'],
  ['json_schema without json_schema', format({ type: 'json_schema' }), 'response_format.json_schema'],
  ['json_schema with a bad name', schema({ name: 'my schema', schema: {} }), 'response_format.json_schema.name'],
  ['json_schema with a long name', schema({ name: 'n'.repeat(65), schema: {} }), 'response_format.json_schema.name'],
  ['json_schema with a string as schema', schema({ name: 's', schema: '{}' }), 'response_format.json_schema.schema'],
  ['json_schema with a list as schema', schema({ name: 's', schema: [] }), 'response_format.json_schema.schema'],
  ['json_schema with strict a string', schema({ name: 's', strict: 'yes' }), 'response_format.json_schema.strict'],
  ['reasoning_effort a number', ask({ reasoning_effort: 3 }), 'reasoning_effort'],
  ['service_tier a number', ask({ service_tier: 1 }), 'service_tier'],
  ['stream a string', ask({ stream: 'true' }), 'stream'],
  ['stream a number', ask({ stream: 1 }), 'stream'],
  ['stream_options a boolean', ask({ stream: true, stream_options: true }), 'stream_options'],
  [
    'include_usage a string',
    ask({ stream: true, stream_options: { include_usage: 'yes' } }),
    'stream_options.include_usage',
  ],
  ['user a number', ask({ user: 5 }), 'user'],
  ['store a string', ask({ store: 'yes' }), 'store'],
  ['parallel_tool_calls a string', ask({ parallel_tool_calls: 'yes' }), 'parallel_tool_calls'],
  ['prompt_cache_key of 65 characters', ask({ prompt_cache_key: 'k'.repeat(65) }), 'prompt_cache_key'],
  ['prompt_cache_key a number', ask({ prompt_cache_key: 5 }), 'prompt_cache_key'],
  ['metadata a string', ask({ metadata: 'x' }), 'metadata'],
  ['metadata with a number', ask({ metadata: { a: 1 } }), 'metadata.a'],
  ['metadata with an object', ask({ metadata: { a: {} } }), 'metadata.a'],
  [
    'metadata of 17 pairs',
    ask({ metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, 'v'])) }),
    'metadata',
  ],
  ['metadata with a long value', ask({ metadata: { a: 'v'.repeat(513) } }), 'metadata.a'],
  ['metadata with a long name', ask({ metadata: { ['k'.repeat(65)]: 'v' } }), `metadata.${'k'.repeat(65)}`],

  ['tools an object', ask({ tools: fn }), 'tools'],
  ['a tool that is a string', tool('get_weather'), 'tools.0'],
  ['a tool without a type and a function', tool({}), 'tools.0.function'],
  ['a tool of the Responses interface', tool({ type: 'function', name: 'f', parameters: {} }), 'tools.0.function'],
  ['a tool without its function', tool({ type: 'function' }), 'tools.0.function'],
  ['a tool without a name', named({}), 'tools.0.function.name'],
  ['a tool with an empty name', named({ name: '' }), 'tools.0.function.name'],
  ['a tool with a blank in its name', named({ name: 'get weather' }), 'tools.0.function.name'],
  ['a tool with a dot in its name', named({ name: 'weather.get' }), 'tools.0.function.name'],
  ['a tool with a name of 65 characters', named({ name: 'n'.repeat(65) }), 'tools.0.function.name'],
  ['a tool with a number as name', named({ name: 5 }), 'tools.0.function.name'],
  ['a tool with a number as description', named({ name: 'f', description: 5 }), 'tools.0.function.description'],
  ['a tool with a string as parameters', named({ name: 'f', parameters: '{}' }), 'tools.0.function.parameters'],
  ['a tool with a list as parameters', named({ name: 'f', parameters: [] }), 'tools.0.function.parameters'],
  ['a tool with strict a string', named({ name: 'f', strict: 'yes' }), 'tools.0.function.strict'],
  ['the second tool is wrong', ask({ tools: [fn, { type: 'function', function: {} }] }), 'tools.1.function.name'],
  ['a custom tool without custom', tool({ type: 'custom' }), 'tools.0.custom'],
  ['a custom tool without a name', tool({ type: 'custom', custom: {} }), 'tools.0.custom.name'],
  [
    'a custom tool with a string as format',
    tool({ type: 'custom', custom: { name: 'f', format: 'x' } }),
    'tools.0.custom.format',
  ],
  ['two tools of one name', ask({ tools: [fn, fn] }), 'tools.1'],
  ['functions a string', ask({ functions: 'f' }), 'functions'],
  ['a function with a bad name', ask({ functions: [{ name: 'a b' }] }), 'functions.0.name'],
  ['functions beside tools', ask({ tools: [fn], functions: [{ name: 'f' }] }), 'functions'],
  ['tool_choice a number', ask({ tools: [fn], tool_choice: 1 }), 'tool_choice'],
  ['tool_choice without a type and a function', ask({ tools: [fn], tool_choice: {} }), 'tool_choice.function'],
  ['tool_choice without its function', ask({ tools: [fn], tool_choice: { type: 'function' } }), 'tool_choice.function'],
  [
    'tool_choice of the Responses interface',
    ask({ tools: [fn], tool_choice: { type: 'function', name: 'get_weather' } }),
    'tool_choice.function',
  ],
  [
    'tool_choice without a name',
    ask({ tools: [fn], tool_choice: { type: 'function', function: {} } }),
    'tool_choice.function.name',
  ],
  [
    'tool_choice of a tool that is not there',
    ask({ tools: [fn], tool_choice: { type: 'function', function: { name: 'other' } } }),
    'tool_choice',
  ],
  ['tool_choice required without tools', ask({ tool_choice: 'required' }), 'tool_choice'],
  [
    'a named tool_choice without tools',
    ask({ tool_choice: { type: 'function', function: { name: 'get_weather' } } }),
    'tool_choice',
  ],
  [
    'no allowed tools',
    ask({ tools: [fn], tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [] } } }),
    'tool_choice.allowed_tools.tools',
  ],
  [
    'an allowed tool that is not there',
    ask({
      tools: [fn],
      tool_choice: {
        type: 'allowed_tools',
        allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'other' } }] },
      },
    }),
    'tool_choice',
  ],
];

/** 400 `unsupported_feature`, unless the upstream speaks the same protocol: unknown content that the model would have read. */
const unknown: readonly Row[] = [
  ['a message with an unknown role', say({ role: 'robot', content: 'Hello' }), 'messages.0.role'],
  ['the second message with an unknown role', say(user, { role: 'bot', content: 'Hi' }), 'messages.1.role'],
  [
    'a system message with an image',
    say({ role: 'system', content: [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }] }, user),
    'messages.0.content.0.type',
  ],
  ['a part of an unknown type', part({ type: 'hologram', text: 'x' }), 'messages.0.content.0.type'],
  ['a part of the Responses interface', part({ type: 'input_text', text: 'x' }), 'messages.0.content.0.type'],
  ['a refusal part of a user', part({ type: 'refusal', refusal: 'No' }), 'messages.0.content.0.type'],
  [
    'an assistant with an image',
    say(user, { role: 'assistant', content: [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }] }),
    'messages.1.content.0.type',
  ],
  [
    'a call of an unknown type',
    say(user, { role: 'assistant', tool_calls: [{ ...call, type: 'magic' }] }),
    'messages.1.tool_calls.0.type',
  ],
  [
    'a tool result with an image',
    say(
      user,
      { role: 'assistant', tool_calls: [call] },
      { role: 'tool', tool_call_id: 'call_1', content: [{ type: 'image_url', image_url: { url: 'https://a.b/c' } }] },
    ),
    'messages.2.content.0.type',
  ],
  ['logit_bias an array', ask({ logit_bias: [1] }), 'logit_bias'],
  ['response_format of an unknown type', format({ type: 'yaml' }), 'response_format.type'],
  ['function_call unknown', ask({ functions: [{ name: 'f' }], function_call: 'always' }), 'function_call'],
  ['tool_choice unknown', ask({ tools: [fn], tool_choice: 'maybe' }), 'tool_choice'],
  ['tool_choice of an unknown type', ask({ tools: [fn], tool_choice: { type: 'magic' } }), 'tool_choice.type'],
  [
    'allowed tools of an unknown mode',
    ask({ tools: [fn], tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'all', tools: [fn] } } }),
    'tool_choice.allowed_tools.mode',
  ],
];

/** Accepted, with a warning that names the field: unknown values that no model would have read. */
const hints: readonly Row[] = [
  [
    'an unknown detail',
    { ...image({ url: `data:image/png;base64,${png}`, detail: 'huge' }), model: 'sim/large' },
    'messages.0.content.0.image_url.detail',
  ],
  ['reasoning_effort unknown', ask({ reasoning_effort: 'extreme' }), 'reasoning_effort'],
  ['verbosity unknown', ask({ verbosity: 'chatty' }), 'verbosity'],
  ['a tool of an unknown type', tool({ type: 'magic' }), 'tools.magic'],
];

/** Refused with the status and code of the row. */
const others: readonly (readonly [...Row, status: number, code: string])[] = [
  ['an empty body', '', null, 400, 'invalid_request'],
  ['a body that is cut', '{"model":"sim/small","messages":[', null, 400, 'invalid_request'],
  ['a body that is not JSON', 'model=sim/small', null, 400, 'invalid_request'],
  ['a body with two documents', '{}{}', null, 400, 'invalid_request'],
  ['a body with a trailing comma', '{"model":"sim/small",}', null, 400, 'invalid_request'],

  ['an unknown model', ask({ model: 'acme/unknown' }), 'model', 400, 'model_not_found'],
  ['a model with an unknown suffix', ask({ model: 'sim/small:turbo' }), 'model', 400, 'model_not_found'],
  ['a model in capitals', ask({ model: 'SIM/SMALL' }), 'model', 400, 'model_not_found'],
  ['a model with blanks', ask({ model: ' sim/small ' }), 'model', 400, 'model_not_found'],
  ['a model that is not available', ask({ model: 'sim/unavailable' }), 'model', 502, 'model_unavailable'],

  ['a tier that the model lacks', ask({ service_tier: 'flex' }), 'service_tier', 400, 'unsupported_feature'],
  [
    'a tier in the name that the model lacks',
    ask({ model: 'sim/small:priority' }),
    'model',
    400,
    'unsupported_feature',
  ],
  [
    'two different tiers',
    ask({ model: 'sim/large:flex', service_tier: 'priority' }),
    'service_tier',
    400,
    'invalid_request',
  ],
  [
    'a tier in the name and the standard one',
    ask({ model: 'sim/large:flex', service_tier: 'default' }),
    'service_tier',
    400,
    'invalid_request',
  ],
  [
    'an image for a model without vision',
    image({ url: `data:image/png;base64,${png}` }),
    'messages',
    400,
    'unsupported_feature',
  ],
  [
    'an image by address for a model without vision',
    image({ url: 'https://example.com/a.png' }),
    'messages',
    400,
    'unsupported_feature',
  ],
  ['tools for a model without tools', ask({ model: 'sim/writer', tools: [fn] }), 'tools', 400, 'unsupported_feature'],
  [
    'functions for a model without tools',
    ask({ model: 'sim/writer', functions: [{ name: 'f' }] }),
    'tools',
    400,
    'unsupported_feature',
  ],
  [
    'reasoning for a model without reasoning',
    ask({ reasoning_effort: 'low' }),
    'reasoning_effort',
    400,
    'unsupported_feature',
  ],
  [
    'a tool result without a call',
    say(user, { role: 'tool', tool_call_id: 'call_1', content: 'ok' }),
    'messages',
    400,
    'unsupported_parameter',
  ],
  [
    'a tool result for another call',
    say(user, { role: 'assistant', tool_calls: [call] }, { role: 'tool', tool_call_id: 'call_2', content: 'ok' }),
    'messages',
    400,
    'unsupported_parameter',
  ],
  [
    'a call without a result',
    say(user, { role: 'assistant', tool_calls: [call] }, user),
    'messages',
    400,
    'unsupported_parameter',
  ],
  [
    'a call without a result at the end',
    say(user, { role: 'assistant', tool_calls: [call] }),
    'messages',
    400,
    'unsupported_parameter',
  ],
  [
    'a result given twice',
    say(
      user,
      { role: 'assistant', tool_calls: [call] },
      { role: 'tool', tool_call_id: 'call_1', content: 'ok' },
      { role: 'tool', tool_call_id: 'call_1', content: 'ok' },
    ),
    'messages',
    400,
    'unsupported_parameter',
  ],
  [
    'an image that can’t be read',
    {
      model: 'sim/large',
      messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] }],
    },
    null,
    400,
    'upstream_rejected',
  ],
  [
    'a steering line with an unknown key',
    say({ role: 'user', content: '!sim nonsense=1' }),
    null,
    400,
    'upstream_rejected',
  ],
  ['a steering line out of bounds', say({ role: 'user', content: '!sim status=200' }), null, 400, 'upstream_rejected'],
  [
    'an upstream that refuses the content',
    say({ role: 'user', content: '!sim status=422' }),
    null,
    400,
    'upstream_rejected',
  ],
];

/** All bad requests. */
export const chatBadRequests: readonly BadRequest[] = [
  ...invalid.map(([name, body, param]) => ({ name, body, status: 422, code: 'validation_error', param })),
  ...unknown.map(([name, body, param]) => ({ name, body, status: 400, code: 'unsupported_feature', param })),
  ...others.map(([name, body, param, status, code]) => ({ name, body, status, code, param })),
];

/** Requests with an unknown value, and the field that is therefore not sent to an upstream of another protocol. */
export const chatUnknownHints: readonly {
  readonly name: string;
  readonly body: unknown;
  readonly field: string | null;
}[] = hints.map(([name, body, param]) => ({ name, body, field: param }));
