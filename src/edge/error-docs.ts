import type { FastifyInstance } from 'fastify';
import { type ErrorFacets, errorTable } from '../errors/error-table.ts';
import { errorType } from '../errors/error-type.ts';
import { writeAnswer } from './answer.ts';

/** The path of the page. The `docs` member of an error is this path, `#` and the error's code. */
export const errorDocsPath = '/docs/errors';

const style = `
  body { font: 16px/1.5 system-ui, sans-serif; color: #1c2330; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
  h1 { font-size: 1.6rem; } code { background: #eef1f5; border-radius: 4px; padding: .1em .35em; font-size: .92em; }
  section { border-top: 1px solid #d8dde5; padding: .8rem 0; } section:target { background: #fff7dc; }
  h2 { font-size: 1.05rem; margin: 0; } p { margin: .3rem 0; } .facts { color: #566074; font-size: .92rem; }
  nav { columns: 16rem; } nav a { display: block; }
`;

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

/** Escapes a text for HTML; what is between backticks becomes `<code>`. */
function toHtml(text: string): string {
  return escapeHtml(text).replaceAll(/`([^`]*)`/g, '<code>$1</code>');
}

function section(code: string, { meaning, http, retry, tip }: ErrorFacets): string {
  return `<section id="${code}"><h2><code>${code}</code></h2>
<p class="facts">Status ${http}, type ${errorType(http)}</p>
<p>${toHtml(meaning)}</p>
<p>${toHtml(tip)}</p>
<p>${toHtml(retryText(http, retry))}</p></section>`;
}

function retryText(http: number, retry: boolean | undefined): string {
  if (http === 429) return 'Retry: after `retry-after`, if the answer has it; clients retry by themselves only then.';
  if (retry === undefined) return 'Retry: with exponential backoff; the official clients do it by themselves.';
  return retry ? 'Retry: at once.' : 'Retry: the same request fails again.';
}

function page(): string {
  const rows = Object.entries<ErrorFacets>(errorTable);
  const sections = rows.map(([code, facets]) => section(code, facets));
  const index = rows.map(([code, { http }]) => `<a href="#${code}"><code>${code}</code> ${http}</a>`);
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Tollgate: errors</title>
<style>${style}</style></head><body><h1>Errors</h1>
<p>Every error has a <code>code</code> for programs to branch on. <code>param</code> names the field, <code>id</code> is the request's id; quote it to
the operator of this gateway. <a href="../docs">All paths and fields</a>.</p>
<nav aria-label="Codes">${index.join('\n')}</nav>
${sections.join('\n')}
</body></html>
`;
}

/**
 * Registers `GET /docs/errors`: the meaning of every code and what to do, for people. An error's `docs` points here unless the operator
 * names another page. No key needed.
 */
export function registerErrorDocs(app: FastifyInstance): void {
  const body = page();
  const headers = {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'",
    'x-content-type-options': 'nosniff',
  };
  app.get(errorDocsPath, (request, reply) => {
    reply.hijack();
    writeAnswer(request.raw, reply.raw, { status: 200, headers: { ...request.call.headers, ...headers }, body });
  });
}
