/** The API reference: docs/openapi.json is current, and it has every public path, field and example. */
import { subscribe } from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { openApiDocPath, openApiText } from '../../scripts/openapi-doc.ts';
import { errorTable } from '../../src/errors/error-table.ts';
import { ask, startListener } from '../edge/listener.ts';
import { type Json, listOperations, Schemas } from './schemas.ts';

const document = JSON.parse(openApiText()) as Json;
const operations = listOperations(document);

/** Paths of the files of the reference's web page, which are not part of the API. */
const pageFiles = /^\/docs\/assets\//;

/** Returns a route in OpenAPI's notation: the router doubles a colon that is part of the path. */
function toTemplate(url: string): string {
  return url
    .replace(/(?<!:):(\w+)/g, '{$1}')
    .replace('::', ':')
    .replace('*', '{model}');
}

interface Route {
  readonly method: string | readonly string[];
  readonly url: string;
}

test('docs/openapi.json is current: it is made from the schemas and operations', () => {
  expect(readFileSync(openApiDocPath, 'utf8') === openApiText(), 'run: node scripts/openapi-doc.ts').toBe(true);
});

test('every public route has an operation, and every operation a route', async () => {
  const routes: Route[] = [];
  subscribe('fastify.initialization', message => {
    const { fastify } = message as { fastify: { addHook(name: 'onRoute', note: (route: Route) => void): void } };
    fastify.addHook('onRoute', route => routes.push(route));
  });
  await startListener({ publicMetrics: true });
  const offered = routes.flatMap(({ method, url }) => [method].flat().map(each => `${each} ${toTemplate(url)}`));
  const wanted = offered.filter(route => !route.startsWith('HEAD ') && !pageFiles.test(route.split(' ')[1] ?? ''));
  const documented = operations.map(({ method, path }) => `${method.toUpperCase()} ${path}`);
  expect(wanted.length).toBeGreaterThan(30);
  expect(
    wanted.filter(route => !documented.includes(route)),
    'routes without an operation: add them in src/edge/openapi/operations',
  ).toEqual([]);
  expect(
    documented.filter(route => !offered.includes(route)),
    'operations without a route',
  ).toEqual([]);
});

test('every tag of an operation has a description', () => {
  const explained = (document['tags'] as { name: string }[]).map(({ name }) => name);
  const used = new Set(operations.flatMap(({ tags }) => tags));
  expect(used).toEqual(new Set(explained));
});

test('every field of every body has a description, and every example matches its schema', () => {
  const schemas = document['components'] as { schemas: Record<string, { properties?: Record<string, Json> }> };
  const lenient = new Schemas(document, { strict: false });
  const bodies = operations.flatMap(({ requestBody }) => requestBody?.content['application/json'] ?? []);
  expect(bodies.length).toBeGreaterThan(12);
  for (const operation of operations) {
    const { 'application/json': body } = operation.requestBody?.content ?? {};
    if (body === undefined) continue;
    const name = String(body.schema['$ref']).split('/').at(-1) ?? '';
    const fields = Object.entries(schemas.schemas[name]?.properties ?? {});
    expect([name, fields.length > 0]).toEqual([name, true]);
    expect(
      fields.filter(([, field]) => !('description' in field)).map(([field]) => `${name}.${field}`),
      'fields without a description: add it where the schema gets its name',
    ).toEqual([]);
    for (const [example, { value }] of Object.entries(body.examples)) {
      expect(lenient.findBodyFaults(operation, value), `${operation.operationId} ${example}`).toEqual([]);
    }
  }
});

test('every error code has an example in each of the three envelopes, which matches its schema', () => {
  const { responses } = document['components'] as { responses: Record<string, { content: Record<string, Json> }> };
  const strict = new Schemas(document, { strict: true });
  for (const prefix of ['Error', 'MessagesError', 'AccountError']) {
    for (const [code, { http }] of Object.entries(errorTable)) {
      const content = responses[`${prefix}${http}`]?.content['application/json'];
      const examples = content?.['examples'] as Record<string, { value: Json }> | undefined;
      const { value } = examples?.[code] ?? {};
      const pointer = `/components/responses/${prefix}${http}/content/application~1json/schema`;
      expect(strict.faultsAt(pointer, value), `${prefix} ${code}`).toEqual([]);
    }
  }
});

test('every reference in the document resolves', () => {
  const pointers = [...openApiText().matchAll(/"\$ref": "#([^"]+)"/g)].map(([, pointer]) => pointer ?? '');
  const lost = pointers.filter(pointer => {
    let place: unknown = document;
    for (const step of pointer.split('/').slice(1)) place = (place as Json | undefined)?.[step];
    return place === undefined;
  });
  expect(pointers.length).toBeGreaterThan(100);
  expect([...new Set(lost)]).toEqual([]);
});

test('a gateway serves the document without a key, and a page for it that loads nothing from other hosts', async () => {
  const listener = await startListener();
  const answered = await ask(listener, '/openapi.json', { key: null });
  expect([answered.status, answered.json]).toEqual([200, document]);
  const page = await ask(listener, '/docs', { key: null });
  expect(page.status).toBe(200);
  expect(page.headers['content-security-policy']).toBe(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  );
  const loaded = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, address]) => address ?? '');
  expect(loaded.filter(address => /^(https?:)?\/\//.test(address))).toEqual([]);
  for (const address of loaded.filter(each => each.includes('assets'))) {
    const file = await ask(listener, `/${address}`, { key: null });
    expect([address, file.status]).toEqual([address, 200]);
  }
  const script = await ask(listener, '/docs/assets/swagger-ui-bundle.js', { key: null });
  expect(script.text.length).toBeGreaterThan(1_000_000);
});

test('the root path answers programs with JSON and browsers with a page, and both link to the reference', async () => {
  const listener = await startListener();
  const { json } = await ask(listener, '/', { key: null });
  expect(json).toMatchObject({ name: 'Tollgate', docs: '/docs', openapi: '/openapi.json', errors: '/docs/errors' });
  const page = await ask(listener, '/', { key: null, headers: { accept: 'text/html,*/*' } });
  expect(page.headers['content-type']).toBe('text/html; charset=utf-8');
  expect(page.text).toContain('href="docs"');
});
