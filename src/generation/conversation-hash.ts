import { createHash } from 'node:crypto';
import { type Item, Role } from '../gen/tollgate/v1/content_pb.ts';
import type { GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';

/** How many characters of each text are hashed to tell conversations apart. */
const charactersMax = 4_096;

/** Returns a hash of a conversation's beginning, which stays the same: model, cache key, instructions, and the items up to the first message of the user. */
export function hashConversation({ model, promptCacheKey, instructions, items }: GenerateRequest): string {
  const hash = createHash('sha256').update(JSON.stringify([model, promptCacheKey ?? '', cut(instructions ?? '')]));
  for (const item of items) {
    hash.update(JSON.stringify(listTexts(item)));
    if (item.content.case === 'message' && item.content.value.role === Role.USER) break;
  }
  return hash.digest('base64');
}

function listTexts({ content }: Item): readonly string[] {
  if (content.case !== 'message') return [content.case ?? ''];
  return content.value.parts.map(part => (part.content.case === 'text' ? cut(part.content.value.text) : ''));
}

const cut = (text: string): string => text.slice(0, charactersMax);

/** Returns a hash by which all turns of an account's conversation are told from those of others, whatever the model: of its tools and its beginning. */
export function hashAffinity(request: GenerateRequest, accountId: number | undefined): string {
  const tools = request.tools.map(({ tool }) => (tool.case === 'function' ? tool.value.name : (tool.case ?? '')));
  return createHash('sha256')
    .update(JSON.stringify([accountId ?? 0, tools, hashConversation({ ...request, model: '' })]))
    .digest('base64');
}
