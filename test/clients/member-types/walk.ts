/**
 * Lists the members and values of the official clients' types with TypeScript's own API (`typescript/unstable/sync`: the compiler of this repository has no other,
 * and a second, older one would only be for this).
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isInterfaceDeclaration } from 'typescript/unstable/ast/is';
import { API, type Checker, type Type } from 'typescript/unstable/sync';

/** The members of the types of one client: where each is, and the texts that it can have. */
export type Members = ReadonlyMap<string, { readonly places: Set<string>; readonly values: Set<string> }>;

/** Types of the platform, not of a wire. */
const platform =
  /^(?:Uint8Array|Blob\w*|File\w*|ReadableStream|Response\w*Like|Response|Date|Promise|AbortSignal|FsReadStream|BunFile|HttpOptions|HttpResponse)$/;

/** Returns the members of the types of each client. `edit` changes the text of a file of types before it is read. */
export function walkMembers(edit: (path: string, text: string) => string = (_, text) => text): Map<string, Members> {
  const folder = import.meta.dirname;
  const readFile = (path: string): string | undefined =>
    path.endsWith('.d.ts') || path.endsWith('.d.mts') ? edited(path) : undefined;
  const edited = (path: string): string | undefined => {
    if (!path.includes('/test/clients/node_modules/')) return undefined;
    const text = readFileSync(path, 'utf8');
    const changed = edit(path, text);
    return changed === text ? undefined : changed;
  };
  const api = new API({ cwd: folder, fs: { readFile } });
  try {
    const [project] = api.updateSnapshot({ openProjects: [join(folder, 'tsconfig.json')] }).getProjects();
    const file = project?.program.getSourceFile(join(folder, 'roots.ts'));
    const roots = file?.statements.find(isInterfaceDeclaration);
    const type = roots === undefined ? undefined : project?.checker.getTypeAtLocation(roots.name);
    if (project === undefined || type === undefined) throw new Error('the types of the clients can’t be read');
    const { checker } = project;
    const clients = checker.getPropertiesOfType(type);
    return new Map(clients.map(client => [client.name, new Walk(checker).from(checker.getTypeOfSymbol(client))]));
  } finally {
    api.close();
  }
}

class Walk {
  readonly #checker: Checker;
  readonly #seen = new Set<number>();
  readonly #members = new Map<string, { places: Set<string>; values: Set<string> }>();

  constructor(checker: Checker) {
    this.#checker = checker;
  }

  /** Returns the members of all types that the members of `roots` lead to. */
  from(roots: Type | undefined): Members {
    for (const root of roots === undefined ? [] : this.#checker.getPropertiesOfType(roots)) {
      this.#visit(this.#checker.getTypeOfSymbol(root), root.name, '');
    }
    return this.#members;
  }

  #visit(type: Type | undefined, place: string, member: string): void {
    if (type === undefined) return;
    if (type.isUnionType() || type.isIntersectionType()) {
      for (const each of type.getTypes() ?? []) this.#visit(each, place, member);
    } else if (type.isStringLiteralType()) this.#members.get(member)?.values.add(String(type.value));
    else if (type.isObjectType() && !this.#seen.has(type.id)) {
      this.#seen.add(type.id);
      this.#visitObject(type, place, member);
    }
  }

  #visitObject(type: Type, place: string, member: string): void {
    const checker = this.#checker;
    if (checker.isArrayType(type) || checker.isTupleType(type)) {
      for (const each of checker.getTypeArguments(type as never)) this.#visit(each, place, member);
      return;
    }
    const name = type.getAliasSymbol()?.name ?? type.getSymbol()?.name ?? '';
    if (platform.test(name)) return;
    const own = name === '' || name.startsWith('__') ? `${place}.${member}` : name;
    for (const { valueType } of checker.getIndexInfosOfType(type)) this.#visit(valueType, own, member);
    const symbols = checker.getPropertiesOfType(type).filter(({ name: each }) => !each.startsWith('__@'));
    const types = checker.getTypeOfSymbol(symbols);
    for (const [index, symbol] of symbols.entries()) {
      let found = this.#members.get(symbol.name);
      if (found === undefined) this.#members.set(symbol.name, (found = { places: new Set(), values: new Set() }));
      found.places.add(own);
      this.#visit(types[index], own, symbol.name);
    }
  }
}
