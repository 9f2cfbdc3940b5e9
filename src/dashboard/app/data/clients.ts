/** The settings of a client: the gateway's address, the key, the model. */
export interface ClientFacts {
  readonly url: string;
  readonly key: string;
  readonly model: string;
}

/** Examples of a key's first call, by the name of the client. Each works as it is. */
export const clientSnippets: Readonly<Record<string, (facts: ClientFacts) => string>> = {
  curl: ({ url, key, model }) =>
    [
      `curl ${url}/v1/chat/completions \\`,
      `  -H 'Authorization: Bearer ${key}' \\`,
      "  -H 'Content-Type: application/json' \\",
      `  -d '${JSON.stringify({ model, messages: [{ role: 'user', content: 'Say hello.' }] })}'`,
    ].join('\n'),
  OpenAI: ({ url, key, model }) =>
    [
      "import OpenAI from 'openai';",
      '',
      `const client = new OpenAI({ baseURL: '${url}/v1', apiKey: '${key}' });`,
      `const answer = await client.responses.create({ model: '${model}', input: 'Say hello.' });`,
      'console.log(answer.output_text);',
    ].join('\n'),
  Anthropic: ({ url, key, model }) =>
    [
      "import Anthropic from '@anthropic-ai/sdk';",
      '',
      `const client = new Anthropic({ baseURL: '${url}', apiKey: '${key}' });`,
      'const answer = await client.messages.create({',
      `  model: '${model}',`,
      '  max_tokens: 1024,',
      "  messages: [{ role: 'user', content: 'Say hello.' }],",
      '});',
      'console.log(answer.content);',
    ].join('\n'),
  'Claude Code': ({ url, key, model }) =>
    [
      `export ANTHROPIC_BASE_URL=${url}`,
      `export ANTHROPIC_AUTH_TOKEN=${key}`,
      `export ANTHROPIC_MODEL=${model} ANTHROPIC_DEFAULT_HAIKU_MODEL=${model}`,
      'claude',
    ].join('\n'),
  Codex: ({ url, key, model }) =>
    [
      `export OPENAI_API_KEY=${key}`,
      `codex -m ${model} -c 'model_provider="tollgate"' \\`,
      `  -c 'model_providers.tollgate.name="Tollgate"' \\`,
      `  -c 'model_providers.tollgate.base_url="${url}/v1"' \\`,
      `  -c 'model_providers.tollgate.env_key="OPENAI_API_KEY"' \\`,
      `  -c 'model_providers.tollgate.wire_api="responses"'`,
    ].join('\n'),
};
