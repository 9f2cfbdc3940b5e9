/** Reads the API reference for tests: its operations, and its schemas as functions that return what is wrong with a value. */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';

/** A part of the document. */
export type Json = Record<string, unknown>;

/** An operation of the document. */
export interface Documented {
  readonly tags: readonly string[];
  readonly method: string;
  readonly path: string;
  readonly operationId: string;
  readonly security: readonly Json[];
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly required: boolean }[];
  readonly requestBody?: {
    readonly required: boolean;
    readonly content: {
      readonly 'application/json'?: {
        readonly schema: Json;
        readonly examples: Readonly<Record<string, { readonly value: Json }>>;
      };
      readonly 'multipart/form-data'?: { readonly example?: Readonly<Record<string, string>> };
    };
  };
  readonly responses: Readonly<
    Record<string, { readonly $ref?: string; readonly content?: Readonly<Record<string, Json>> }>
  >;
}

/** Returns the operations of a document. */
export function listOperations(document: Json): Documented[] {
  const paths = document['paths'] as Record<string, Record<string, object>>;
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ ...operation, method, path }) as Documented),
  );
}

/**
 * Finds what is wrong with values, by the schemas of a document. `strict`: members that are not in an object's schema
 * are wrong too, unless the schema allows others.
 */
export class Schemas {
  readonly #ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
  readonly #document: Json;
  readonly #known = new Map<string, ValidateFunction>();

  constructor(document: Json, { strict }: { readonly strict: boolean }) {
    this.#document = strict ? (closed(document) as Json) : document;
    this.#ajv.addSchema({ $id: 'document', ...this.#document });
  }

  /** Returns what is wrong with a value, by the schema at this pointer of the document ("/components/schemas/Error"). */
  faultsAt(pointer: string, value: unknown): string[] {
    const validate = this.#known.get(pointer) ?? this.#ajv.compile({ $ref: `document#${encodeURI(pointer)}` });
    this.#known.set(pointer, validate);
    if (validate(value)) return [];
    return (validate.errors ?? []).map(
      ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
    );
  }

  /** Returns what is wrong with the JSON answer of an operation. */
  findAnswerFaults({ path, method, responses }: Documented, status: number, value: unknown): string[] {
    const response = responses[String(status)];
    if (response === undefined) return [`status ${status} is not documented`];
    const place = response.$ref?.slice(1) ?? `/paths/${escape(path)}/${method}/responses/${status}`;
    return this.faultsAt(`${place}/content/application~1json/schema`, value);
  }

  /** Returns what is wrong with the JSON body of an operation. */
  findBodyFaults({ path, method }: Documented, value: unknown): string[] {
    return this.faultsAt(`/paths/${escape(path)}/${method}/requestBody/content/application~1json/schema`, value);
  }
}

function escape(path: string): string {
  return path.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** Returns the document with objects closed: only listed members are allowed, unless the schema says otherwise. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.fromEntries(Object.entries(value).map(([name, each]) => [name, closed(each)]));
  const isObject = members['type'] === 'object' && 'properties' in members;
  return isObject && !('additionalProperties' in members) ? { ...members, additionalProperties: false } : members;
}
