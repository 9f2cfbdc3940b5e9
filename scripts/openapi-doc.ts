/**
 * Writes docs/openapi.json, the API reference that a gateway answers at /openapi.json (`node scripts/openapi-doc.ts`). test/reference/document.test.ts fails if
 * the file differs from its output.
 */
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { openApiDocument } from '../src/edge/openapi/document.ts';

/** The path of the document. */
export const openApiDocPath = resolve(import.meta.dirname, '../docs/openapi.json');

/** Returns the document as text. */
export function openApiText(): string {
  return `${JSON.stringify(openApiDocument(), undefined, 1)}\n`;
}

if (import.meta.main) writeFileSync(openApiDocPath, openApiText());
