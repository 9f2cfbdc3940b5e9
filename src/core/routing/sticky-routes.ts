import { type Part, Role } from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { hashConversation } from '../../generation/conversation-hash.ts';
import type { RouteName } from './observer.ts';

/** The most conversations that are remembered; the least recently used one is forgotten first. */
const conversationsMax = 10_000;

/** The fields of a route that ordering needs. */
interface OrderedRoute {
  readonly name: RouteName;
  readonly priority: number;
}

/**
 * Remembers the route of each conversation, so that its later requests use it again: that upstream has the prompt cached. Providers that have sealed content in the conversation (signed or encrypted reasoning) come first, because only they can read it. Source: docs/architecture.md "Routing".
 */
export class StickyRoutes {
  readonly #routes = new Map<string, string>();

  /**
   * Returns the routes in the order to try them. Routes of a provider that has sealed content in the conversation come first, whatever their priority; then the remembered route, unless its priority is lower than that of the first
   * route. `onlySealed`: the remembered route is ignored.
   */
  ordered<Each extends OrderedRoute>(
    routes: readonly Each[],
    request: GenerateRequest,
    onlySealed = false,
  ): readonly Each[] {
    const [first, second] = routes;
    if (first === undefined || second === undefined) return routes;
    const sealingProviders = listSealingProviders(request);
    const taken =
      !onlySealed && continuesConversation(request) ? this.#routes.get(hashConversation(request)) : undefined;
    const rank = ({ name, priority }: Each): number => {
      if (sealingProviders.has(name.provider)) return 0;
      return taken === toText(name) && priority === first.priority ? 1 : 2;
    };
    return routes.toSorted((one, other) => rank(one) - rank(other));
  }

  /** Remembers the route that has begun to answer a conversation. `routeCount`: how many routes the model has; with one, there is nothing to remember. */
  recordRoute(request: GenerateRequest, name: RouteName, routeCount: number): void {
    if (routeCount < 2) return;
    const key = hashConversation(request);
    this.#routes.delete(key);
    this.#routes.set(key, toText(name));
    if (this.#routes.size <= conversationsMax) return;
    for (const oldest of this.#routes.keys()) {
      this.#routes.delete(oldest);
      return;
    }
  }
}

const toText = ({ provider, model }: RouteName): string => JSON.stringify([provider, model]);

/** Returns true if a request continues a conversation, or names a cache. First requests are spread by weight, even if they are similar. */
function continuesConversation({ items, promptCacheKey, cache }: GenerateRequest): boolean {
  if (promptCacheKey !== undefined || cache !== undefined) return true;
  return items.some(({ content }) => content.case !== 'message' || content.value.role === Role.ASSISTANT);
}

/** Returns the providers of the conversation's sealed content: signatures, and encrypted reasoning or compactions. */
function listSealingProviders({ items }: GenerateRequest): ReadonlySet<string> {
  const providers = new Set<string>();
  const add = (blob: { readonly provider: string } | undefined): void => {
    if (blob !== undefined && blob.provider !== '') providers.add(blob.provider);
  };
  const addParts = (parts: readonly Part[]): void => {
    for (const part of parts) add(part.signature);
  };
  for (const { content } of items) {
    if (content.case === 'reasoning') {
      for (const blob of content.value.opaque) add(blob);
      addParts(content.value.parts);
    } else if (content.case === 'toolCall') add(content.value.signature);
    else if (content.case === 'compaction') add(content.value.opaque);
    else if (content.case === 'message') addParts(content.value.parts);
  }
  return providers;
}
