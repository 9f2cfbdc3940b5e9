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

/** The most requests of one reflection stream: several times as many as the API has types. */
const questionsMax = 1_024;

type Answer = NonNullable<MessageInitShape<typeof ServerReflectionResponseSchema>['messageResponse']>;

/**
 * Implements grpc.reflection.v1, with which callers (`buf curl`, grpcurl) read the API from the running process. Each request is answered with the requested file and all its imports. Clients keep their streams open, so a stream ends when `stopping` is aborted, after `durationMs`, or after 1,024 requests. Responses do not repeat the request, so that nothing of a caller is kept, because
 * no credential is required.
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
      return failure(Code.NotFound, 'the API has no extensions');
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

/** Returns the failure for an unknown name. The name is repeated only if it could be that of a type. */
function unknown(name: string): Answer {
  const named = /^[\w./]{1,100}$/.test(name) ? name : 'that';
  return failure(Code.NotFound, `${named} is not known`);
}

/** The encoded files. They are encoded once, because anyone can request them. */
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

/** Returns the file, followed by its direct and indirect imports, each once. */
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
