import type { Json, JsonObject } from '../codec.ts';
import { objectIn } from '../json.ts';

/**
 * Brings a request of a client into one form: Google's services accept members in camelCase and in snake_case, and one object where a list is
 * meant. Source: docs/interfaces/gemini.md "Request"; the JSON mapping of protobuf (protobuf.dev, "ProtoJSON Format").
 */

/** The members of an object, by their names in camelCase; `true` for a member whose content is not changed. */
interface Form {
  readonly members: Readonly<Record<string, Form | true>>;
  /** True if the value is a list of such objects. */
  readonly isList: boolean;
}

function form(names: string, inner: Readonly<Record<string, Form>> = {}): Form {
  const members: Record<string, Form | true> = { ...inner };
  for (const name of names.split(' ')) members[name] = true;
  return { members, isList: false };
}

function listOf(entry: Form): Form {
  return { ...entry, isList: true };
}

const blob = form('mimeType data displayName');
const fileData = form('mimeType fileUri displayName');
const media = form('', { inlineData: blob, fileData });
const part = form('text thought thoughtSignature executableCode codeExecutionResult videoMetadata mediaResolution', {
  inlineData: blob,
  fileData,
  functionCall: form('id name args'),
  functionResponse: form('id name response willContinue scheduling', { parts: listOf(media) }),
});
const content = form('role', { parts: listOf(part) });
const functionDeclaration = form(
  'name description parameters parametersJsonSchema response responseJsonSchema behavior',
);
const tool = form('googleSearch googleSearchRetrieval googleMaps urlContext codeExecution fileSearch computerUse', {
  functionDeclarations: listOf(functionDeclaration),
});
const generationConfig = form(
  'candidateCount stopSequences maxOutputTokens temperature topP topK seed presencePenalty frequencyPenalty ' +
    'responseMimeType responseSchema responseJsonSchema responseLogprobs logprobs responseModalities mediaResolution ' +
    'speechConfig imageConfig audioTimestamp',
  { thinkingConfig: form('includeThoughts thinkingBudget thinkingLevel') },
);
const request = form('model safetySettings cachedContent labels serviceTier', {
  contents: listOf(content),
  systemInstruction: content,
  tools: listOf(tool),
  toolConfig: form('retrievalConfig includeServerSideToolInvocations', {
    functionCallingConfig: form('mode allowedFunctionNames'),
  }),
  generationConfig,
});

const embedding = form('model taskType title outputDimensionality autoTruncate', { content });

/** The bodies that are brought into one form. */
export const forms = {
  request,
  embedding,
  embeddings: form('', { requests: listOf(embedding) }),
  count: { ...request, members: { ...request.members, generateContentRequest: request } },
} as const;

/** Returns a name in camelCase. */
export function toCamelCase(name: string): string {
  return name.includes('_') ? name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()) : name;
}

/** Returns a body with the members of its form in camelCase and lists where lists are meant. Anything else stays as it is; the input is not changed. */
export function toNormalForm(body: unknown, expected: Form): unknown {
  const value = body as Json;
  if (expected.isList) {
    if (Array.isArray(value)) return value.map(entry => withNames(entry, expected));
    return objectIn(value) === undefined ? value : [withNames(value, expected)];
  }
  return withNames(value, expected);
}

function withNames(value: Json, { members }: Form): Json {
  const given = objectIn(value);
  if (given === undefined) return value;
  const normal: JsonObject = {};
  for (const [name, member] of Object.entries(given)) {
    const camel = toCamelCase(name);
    const known = Object.hasOwn(members, camel) ? members[camel] : undefined;
    // If a client sends both spellings, the one in camelCase counts.
    if (known === undefined || (camel !== name && given[camel] !== undefined)) normal[name] = member;
    else normal[camel] = known === true ? member : (toNormalForm(member, known) as Json);
  }
  return normal;
}

/** Returns the name under which an object has a member, in either spelling; the name in camelCase if it has none. */
export function spelledName(holder: JsonObject, camel: string): string {
  if (holder[camel] !== undefined) return camel;
  const snake = camel.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`);
  return holder[snake] === undefined ? camel : snake;
}
