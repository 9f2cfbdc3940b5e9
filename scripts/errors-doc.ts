/**
 * Writes docs/errors.md from the error table (`node scripts/errors-doc.ts`). test/errors-doc.test.ts fails if the page differs from its output.
 */
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { type ProviderError, providerErrors } from '../src/codecs/provider-errors.ts';
import type { FailureMeaning } from '../src/generation/failure-meaning.ts';
import { type ErrorFacets, errorTable } from '../src/errors/error-table.ts';
import { errorType } from '../src/errors/error-type.ts';

/** The path of the page. */
export const errorsDocPath = resolve(import.meta.dirname, '../docs/errors.md');

const introduction = `# Errors

<!-- Written by scripts/errors-doc.ts from src/errors/error-table.ts and src/codecs/provider-errors.ts: change the tables, then run \`node scripts/errors-doc.ts\`. -->

## The envelope

Every error is \`{"error": {message, type, param, code, status_code, id, tip, docs, support, community}}\`. All ten members are always present; a member without a
value is null.

- \`code\`: what happened, for programs: handle errors by it, never by the message
- \`message\`: what happened, for people
- \`param\`: the field that is wrong, such as \`messages.0.content\`
- \`type\`: the kind of error that the official clients expect for the status
- \`status_code\`: the HTTP status
- \`id\`: the id of the request, also in the header \`x-request-id\`; quote it when you contact the operator
- \`tip\`, \`docs\`, \`support\`, \`community\`: what to do next, and where to get help; operators can replace them under \`texts\` in the configuration

By interface:

- \`/v1/messages\`: the body also has \`"type": "error"\` and \`request_id\` beside \`error\`, and \`error.type\` has Anthropic's values.
- \`/v1/account\`, \`/v1/key\`: wrong fields of a body (422) or of a query (400) give \`{"detail": [{loc, msg, type, input, ctx}]}\`, one entry for each field.
- A request that is refused because of a limit also gets \`error.limit\`: [Limits](accounting.md#limits).
- A stream that has already started ends with the interface's own error event, with the same \`message\`, \`type\`, \`param\`, \`code\` and \`id\`.
- RPC callers get the gRPC status and a \`tollgate.v1.ErrorDetail\` with the rest.

## Rate limit headers

If a limit of requests applies to a key, its responses, errors included, have \`x-ratelimit-limit-requests\`, \`x-ratelimit-remaining-requests\` and
\`x-ratelimit-reset-requests\`, for the limit of requests with the least remaining. For limits of tokens, the same headers end with \`-tokens\`. The reset has
OpenAI's format: \`12s\`, \`1m30s\`.

\`retry-after\` is in seconds, and present if waiting helps: 1 to 61 for a minute limit, 1 for \`concurrent\`, otherwise until the window ends.
\`x-should-retry: false\` stops the retries of the official clients; it is on every 400, 401, 403, 404, 413 and 422, on a 409 \`conflict\`, and on every 429 except those of minute
limits and \`concurrent\`.

## Errors of providers

A provider's error is mapped to a code once, when its answer is parsed. Its message may reach the client; its credentials, address, headers and charges never do.
If the provider refused the content of the request, the code is 400 \`upstream_rejected\`, or \`context_length_exceeded\` if the provider reports that. Every
other error is 502, after other keys and routes were tried: [Routing](architecture.md#routing). Messages about the operator's keys, bill and models are not shown to clients.

What an error means is decided by its status: 400, 413 and 422 blame the request, 401 the key, 402 the bill, 403 the key's permission for the model, 404 the model; 429 is a rate limit; 408, 409 and 498 are temporary; 5xx is a failure.
These errors mean something else (\`src/codecs/provider-errors.ts\`, the first that matches):

| means | sent by | source |
| --- | --- | --- |
`;

const codesIntroduction = `## Codes

"Retry" is the header \`x-should-retry\`, which the official clients follow: *no* stops their retries, *theirs* leaves the decision to them (they retry 408,
409, 429 and 5xx). A 429 for a minute limit or for \`concurrent\` is an exception: the header is *true*, with \`retry-after\`.
`;

/** The text of the page for each meaning. */
const meaningTexts: Readonly<Record<FailureMeaning, string>> = {
  request: 'the request is refused',
  too_long: 'the input is too long',
  key: 'the key is wrong',
  billing: 'the bill is not paid',
  permission: 'the key may not use the model',
  model: 'the provider lacks the model',
  limit: 'a rate limit',
  quota: 'a rate limit, with a message that is not shown',
  loading: 'the model is being loaded',
  temporary: 'temporary',
  server: 'a failure',
};

function retryText(retry: boolean | undefined): string {
  if (retry === undefined) return 'theirs';
  return retry ? 'yes' : 'no';
}

function row(code: string, { meaning, http, rpc, retry, tip }: ErrorFacets): string {
  const cells = [`\`${code}\``, String(http), `\`${errorType(http)}\``, `\`${rpc}\``, retryText(retry), meaning, tip];
  return `| ${cells.map(cell => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

function meaningRow({ means, sent, source }: ProviderError): string {
  return `| ${meaningTexts[means]} | ${sent} | ${source} |`;
}

/** Returns the page: a row for each error of providers and for each code, in the order of the tables. */
export function errorsDoc(): string {
  const rows = Object.entries(errorTable).map(([code, facets]) => row(code, facets));
  const head = [
    '| code | HTTP | type | gRPC | retry | what happened | what to do |',
    '| --- | --- | --- | --- | --- | --- | --- |',
  ];
  return `${introduction}${providerErrors.map(meaningRow).join('\n')}\n\n${codesIntroduction}\n${[...head, ...rows].join('\n')}\n`;
}

if (import.meta.main) writeFileSync(errorsDocPath, errorsDoc());
