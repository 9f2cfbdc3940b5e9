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

type Answer = NonNullable<MessageInitShape<typeof ServerReflectionResponseSchema>['messageResponse']>;

/**
 * grpc.reflection.v1: lets callers (`buf curl`, grpcurl) read the contract from the running process. A question is answered with the file
 * and all that it imports. `stopping` ends open conversations, which clients keep for as long as they live.
 */
export function reflectionService(
  services: readonly DescService[],
  stopping: AbortSignal,
): ServiceImpl<typeof ServerReflection> {
  const index = indexFiles(services);
  return {
    async *serverReflectionInfo(requests, context) {
      const source = requests[Symbol.asyncIterator]();
      const over = untilAborted(AbortSignal.any([stopping, context.signal]));
      for (;;) {
        const next = await Promise.race([source.next(), over]);
        if (next === undefined || next.done === true) return;
        yield {
          validHost: next.value.host,
          originalRequest: next.value,
          messageResponse: answer(next.value, services, index),
        };
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
      return filesOf(index.byName.get(messageRequest.value), messageRequest.value);
    case 'fileContainingSymbol':
      return filesOf(index.bySymbol.get(messageRequest.value.replace(/^\./, '')), messageRequest.value);
    case 'fileContainingExtension':
      return failure(Code.NotFound, 'the contract has no extensions');
    case 'allExtensionNumbersOfType':
      return index.bySymbol.has(messageRequest.value)
        ? { case: 'allExtensionNumbersResponse', value: { baseTypeName: messageRequest.value } }
        : failure(Code.NotFound, `${messageRequest.value} is not known`);
    default:
      return failure(Code.InvalidArgument, 'the request asks nothing');
  }
}

function failure(code: Code, message: string): Answer {
  return { case: 'errorResponse', value: { errorCode: code, errorMessage: message } };
}

function filesOf(file: DescFile | undefined, asked: string): Answer {
  if (file === undefined) return failure(Code.NotFound, `${asked} is not known`);
  const bytes = [...withImports(file)].map(each => toBinary(FileDescriptorProtoSchema, each.proto));
  return { case: 'fileDescriptorResponse', value: { fileDescriptorProto: bytes } };
}

/** The file first, then what it imports, directly or not, each once. */
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

/** Returns the full names of a file's types, and of what messages and services consist of. */
function readSymbols(file: DescFile): string[] {
  return [...nestedTypes(file)].flatMap(type => {
    const members = type.kind === 'message' ? type.fields : type.kind === 'service' ? type.methods : [];
    return [type.typeName, ...members.map(({ name }) => `${type.typeName}.${name}`)];
  });
}
