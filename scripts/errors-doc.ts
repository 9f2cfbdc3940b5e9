/**
 * Writes docs/errors.md from the error table (`node scripts/errors-doc.ts`). test/errors-doc.test.ts fails where the page is not what this makes.
 */
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { type ErrorFacets, errorTable } from '../src/errors/error-table.ts';
import { errorType } from '../src/errors/error-type.ts';

/** Where the page stands. */
export const errorsDocPath = resolve(import.meta.dirname, '../docs/errors.md');

const introduction = `# Errors

<!-- Written by scripts/errors-doc.ts from src/errors/error-table.ts: change the table, then run \`node scripts/errors-doc.ts\`. -->

Every refusal is \`{"error": {message, type, param, code, status_code, id, tip, docs, support, community}}\`; all ten members are always
there, null where there is nothing to say. Decide by \`code\`. \`param\` names the field ("messages.0.content"), \`id\` is the request's id, which is also the
\`x-request-id\` header of every answer: quote it to the operator. Operators replace tips and links under \`texts\` in the
configuration.

The paths of an account (\`/v1/account/*\`, \`/v1/key/*\`) answer fields that are wrong, of a body (422) or of a query (400), with
\`{"detail": [{loc, msg, type, input, ctx}]}\` instead, an entry for each of them; every other error there is the envelope above. On \`/v1/messages\`
the envelope also has \`"type": "error"\` and \`request_id\`, as Anthropic's clients expect.

In a stream that has begun, the failure is the interface's own error event, with the same \`message\`, \`type\`, \`param\`, \`code\` and \`id\`.

RPC callers get the gRPC status and a \`tollgate.v1.ErrorDetail\` that carries the rest.

"Retry" is what the official clients are told (\`x-should-retry\`): *no* stops their own retries, *theirs* leaves it to them (they
repeat 408, 409, 429 and 5xx). A full minute window says *yes*, with \`retry-after\`.
`;

function retryText(retry: boolean | undefined): string {
  if (retry === undefined) return 'theirs';
  return retry ? 'yes' : 'no';
}

function row(code: string, { meaning, http, rpc, retry, tip }: ErrorFacets): string {
  const cells = [`\`${code}\``, String(http), `\`${errorType(http)}\``, `\`${rpc}\``, retryText(retry), meaning, tip];
  return `| ${cells.map(cell => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

/** The page: one row per code, in the order of the table. */
export function errorsDoc(): string {
  const rows = Object.entries(errorTable).map(([code, facets]) => row(code, facets));
  const head = [
    '| code | HTTP | type | gRPC | retry | what happened | what to do |',
    '| --- | --- | --- | --- | --- | --- | --- |',
  ];
  return `${introduction}\n${[...head, ...rows].join('\n')}\n`;
}

if (import.meta.main) writeFileSync(errorsDocPath, errorsDoc());
