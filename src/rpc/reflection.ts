import { type DescFile, type DescService, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { nestedTypes } from '@bufbuild/protobuf/reflect';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { Code, type ServiceImpl } from '@connectrpc/connect';
import {
  type ServerReflection,
  type ServerReflectionRequest,
  type ServerReflectionResponseSchema,
} from '../gen/grpc/reflection/v1/reflection_pb.ts';
import { untilAborted } from './health.ts';

/** Questions of one conversation: several times as many as the contract has types. */
const questionsMax = 1_024;

type Answer = NonNullable<MessageInitShape<typeof ServerReflectionResponseSchema>['messageResponse']>;

/**
 * grpc.reflection.v1: lets callers (`buf curl`, grpcurl) read the contract from the running process. A question is
 * answered with the file and all its imports. `stopping` ends open conversations, which clients keep for as long as
 * they live; `durationMs` and 1,024 questions end them too. An answer does not repeat its question: no credential is
 * required, so nothing of a caller's is stored.
 */
export function reflectionService(
  services: readonly DescService[],
  stopping: AbortSignal,
  durationMs: number,
): ServiceImpl<typeof ServerReflection> {
  const index = indexFiles(services);
  return {
    async *serverReflectionInfo(requests, context) {
      const source = requests[Symbol.asyncIterator]();
      const over = untilAborted(AbortSignal.any([stopping, context.signal, AbortSignal.timeout(durationMs)]));
      for (let requestCount = 0; requestCount < questionsMax; requestCount += 1) {
        const next = await Promise.race([source.next(), over]);
        if (next === undefined || next.done === true) return;
        yield { messageResponse: answer(next.value, services, index) };
      }
    },
  };
}

interface FileIndex {
  readonly byName: ReadonlyMap<string, DescFile>;
  readonly bySymbol: ReadonlyMap<string, DescFile>;
}

function answer(
  { messageRequest }: ServerReflectionRequest,
  services: readonly DescService[],
  index: FileIndex,
): Answer {
  switch (messageRequest.case) {
    case 'listServices':
      return {
        case: 'listServicesResponse',
        value: { service: services.map(({ typeName }) => ({ name: typeName })) },
      };
    case 'fileByFilename':
      return findFiles(index.byName.get(messageRequest.value), messageRequest.value);
    case 'fileContainingSymbol':
      return findFiles(index.bySymbol.get(messageRequest.value.replace(/^\./, '')), messageRequest.value);
    case 'fileContainingExtension':
      return failure(Code.NotFound, 'the contract has no extensions');
    case 'allExtensionNumbersOfType':
      return index.bySymbol.has(messageRequest.value)
        ? { case: 'allExtensionNumbersResponse', value: { baseTypeName: messageRequest.value } }
        : unknown(messageRequest.value);
    default:
      return failure(Code.InvalidArgument, 'the request asks nothing');
  }
}

function failure(code: Code, message: string): Answer {
  return { case: 'errorResponse', value: { errorCode: code, errorMessage: message } };
}

/** An unknown name is repeated to the caller only if it is short enough to be a type's. */
function unknown(name: string): Answer {
  const named = /^[\w./]{1,100}$/.test(name) ? name : 'that';
  return failure(Code.NotFound, `${named} is not known`);
}

/** The replies for files, built once, because a request costs its sender nothing. */
const descriptors = new WeakMap<DescFile, Uint8Array>();

function encodeDescriptor(file: DescFile): Uint8Array {
  const known = descriptors.get(file) ?? toBinary(FileDescriptorProtoSchema, file.proto);
  descriptors.set(file, known);
  return known;
}

function findFiles(file: DescFile | undefined, requestCount: string): Answer {
  if (file === undefined) return unknown(requestCount);
  return {
    case: 'fileDescriptorResponse',
    value: { fileDescriptorProto: [...withImports(file)].map(encodeDescriptor) },
  };
}

/** Returns the file, then its imports, direct and indirect, each once. */
function withImports(file: DescFile, found = new Set<DescFile>()): Set<DescFile> {
  if (found.has(file)) return found;
  found.add(file);
  for (const imported of file.dependencies) withImports(imported, found);
  return found;
}

function indexFiles(services: readonly DescService[]): FileIndex {
  const files = new Set(services.flatMap(service => [...withImports(service.file)]));
  return {
    byName: new Map([...files].map(file => [file.proto.name, file])),
    bySymbol: new Map(
      [...files].flatMap(file => readSymbols(file).map((symbol): [string, DescFile] => [symbol, file])),
    ),
  };
}

/** Returns the full names of a file's types, and of the members of messages and services. */
function readSymbols(file: DescFile): string[] {
  return [...nestedTypes(file)].flatMap(type => {
    const members = type.kind === 'message' ? type.fields : type.kind === 'service' ? type.methods : [];
    return [type.typeName, ...members.map(({ name }) => `${type.typeName}.${name}`)];
  });
}
