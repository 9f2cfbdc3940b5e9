import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { version } from '../lib/version.ts';
import { jsonAnswer, writeAnswer } from './answer.ts';
import type { Edge } from './edge.ts';
import { answerError } from './error-answer.ts';
import { errorDocsPath } from './error-docs.ts';

/**
 * Serves the API reference, for programs and for people, and the page at `/` that links to it. No key is needed. The content is loaded on
 * first use.
 */

/** The files of Swagger UI that `/docs` loads. */
const assets = {
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'swagger-ui.css': 'text/css; charset=utf-8',
} as const;
type Asset = keyof typeof assets;

/** Allows nothing from other hosts. The icons of Swagger UI are data URLs. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');
const pageHeaders = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': contentSecurityPolicy,
  'x-content-type-options': 'nosniff',
};

const startScript = `SwaggerUIBundle({ url: 'openapi.json', dom_id: '#reference', deepLinking: true, validatorUrl: null });\n`;

const docsPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Tollgate: API reference</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="docs/assets/swagger-ui.css?v=${version}"></head>
<body><main id="reference"></main>
<script src="docs/assets/swagger-ui-bundle.js?v=${version}"></script><script src="docs/assets/start.js?v=${version}"></script>
<noscript><p>Without JavaScript: <a href="openapi.json">openapi.json</a>, <a href="docs/errors">errors</a>.</p></noscript></body></html>
`;

const links = {
  name: 'Tollgate',
  version,
  docs: '/docs',
  openapi: '/openapi.json',
  errors: errorDocsPath,
  models: '/v1/models',
  health: '/healthz',
};
const rootPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Tollgate</title>
<link rel="icon" href="data:,"></head>
<body><h1>Tollgate</h1><p>Version ${version}. One address and one key for many models.</p>
<ul><li><a href="docs">API reference</a></li><li><a href="openapi.json">The same for programs</a></li>
<li><a href="docs/errors">Errors</a></li><li><a href="healthz">Health</a></li></ul></body></html>
`;

/** Registers `GET /`, `GET /openapi.json`, `GET /docs` and the files that it loads. */
export function registerReference(app: FastifyInstance, edge: Edge): void {
  const offer = (
    path: string,
    headers: Readonly<Record<string, string>>,
    read: () => string | Promise<string>,
  ): void => {
    app.get(path, async (request, reply) => {
      reply.hijack();
      try {
        const body = await read();
        writeAnswer(request.raw, reply.raw, { status: 200, headers: { ...request.call.headers, ...headers }, body });
      } catch (thrown) {
        await answerError(edge, request, reply, { thrown });
      }
    });
  };
  app.get('/', (request, reply) => {
    reply.hijack();
    const { headers } = request.call;
    const answer =
      request.headers.accept?.includes('text/html') === true
        ? { status: 200, headers: { ...headers, ...pageHeaders }, body: rootPage }
        : jsonAnswer(200, headers, links);
    writeAnswer(request.raw, reply.raw, answer);
  });
  let document: Promise<string> | undefined;
  offer('/openapi.json', { 'content-type': 'application/json; charset=utf-8' }, () => (document ??= readDocument()));
  offer('/docs', pageHeaders, () => docsPage);
  const cachedHeaders = { 'cache-control': 'public, max-age=86400', 'x-content-type-options': 'nosniff' };
  const script = { ...cachedHeaders, 'content-type': assets['swagger-ui-bundle.js'] };
  offer('/docs/assets/start.js', script, () => startScript);
  for (const [name, type] of Object.entries(assets)) {
    let text: Promise<string> | undefined;
    offer(
      `/docs/assets/${name}`,
      { ...cachedHeaders, 'content-type': type },
      () => (text ??= readAsset(name as Asset)),
    );
  }
}

async function readDocument(): Promise<string> {
  const { openApiDocument } = await import('./openapi/document.ts');
  return JSON.stringify(openApiDocument());
}

/** @fastify/swagger-ui contains Swagger UI without the tracking that Swagger's own package does on installation. */
async function readAsset(name: Asset): Promise<string> {
  const folder = dirname(createRequire(import.meta.url).resolve('@fastify/swagger-ui/package.json'));
  return readFile(join(folder, 'static', name), 'utf8');
}
