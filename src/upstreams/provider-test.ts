import { create } from '@bufbuild/protobuf';
import { ItemSchema, Role } from '../gen/tollgate/v1/content_pb.ts';
import type { GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import {
  type GenerateRequest,
  GenerateRequestSchema,
  OutputFormatType,
  ToolChoiceMode,
} from '../gen/tollgate/v1/request_pb.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { defined } from '../lib/defined.ts';
import { systemRuntime } from '../lib/runtime.ts';
import { CredentialError } from './request-signer.ts';
import type { HttpProvider } from './http-upstream.ts';
import type { ImagesProvider } from './images.ts';

/** The time limit of a test. The command line waits for half a minute. */
const testMs = 25_000;
const modelsMax = 1_000;

/** Whether a model has a feature; `error`: why it does not. */
export interface Ability {
  readonly name: string;
  readonly error?: string;
}

/** The result of testing a provider. */
export interface ProviderTest {
  /** The tested model; absent: there was none. */
  readonly model?: string;
  /** Why the model did not answer; absent: it works. */
  readonly error?: string;
  readonly firstEventMs?: number;
  readonly durationMs?: number;
  readonly reportsUsage: boolean;
  readonly models: readonly string[];
  /** Why there is no list of models; absent: there is one. */
  readonly modelsError?: string;
  readonly abilities: readonly Ability[];
}

/** The result of one call. */
interface Probe {
  readonly error?: string;
  readonly firstEventMs?: number;
  readonly durationMs: number;
  readonly reportsUsage: boolean;
}

/**
 * Tests a provider: requests one token, its list of models, and the features of the model. `model`: the provider's name of the model; undefined: the first one in its list. Never rejects.
 */
export async function testProvider(provider: HttpProvider, model: string | undefined): Promise<ProviderTest> {
  const signal = AbortSignal.timeout(testMs);
  const list = await readModels(provider, signal);
  const requested = model ?? list.models[0];
  if (requested === undefined) {
    const error = 'there is no model to test: the provider lists none, and no configured model has a route to it';
    return { ...list, error, reportsUsage: false, abilities: [] };
  }
  const { error, ...times } = await probe(provider, hello, requested, signal);
  if (error !== undefined) return { ...list, model: requested, error, reportsUsage: false, abilities: [] };
  const abilities = await Promise.all(
    trials.map(async ({ name, request }) => ({
      name,
      ...defined({ error: (await probe(provider, request, requested, signal)).error }),
    })),
  );
  return { ...list, ...times, model: requested, abilities };
}

/** Tests a provider of images by requesting its list of models, because an image would cost too much. Never rejects. */
export async function testImagesProvider(provider: ImagesProvider): Promise<ProviderTest> {
  const list = await readModels(provider, AbortSignal.timeout(testMs));
  return { ...list, ...defined({ error: list.modelsError }), reportsUsage: false, abilities: [] };
}

async function readModels(
  provider: HttpProvider | ImagesProvider,
  signal: AbortSignal,
): Promise<Pick<ProviderTest, 'models' | 'modelsError'>> {
  try {
    return { models: (await provider.listModels(signal)).slice(0, modelsMax) };
  } catch (thrown) {
    return { models: [], modelsError: describe(thrown) };
  }
}

function probe(provider: HttpProvider, request: GenerateRequest, model: string, signal: AbortSignal): Promise<Probe> {
  const beganMs = systemRuntime.monotonicMs();
  const ended = Promise.withResolvers<Probe>();
  let firstEventMs: number | undefined;
  let reportsUsage = false;
  const end = (failure?: Error): void => {
    const facts = { firstEventMs, error: failure === undefined ? undefined : describe(failure) };
    ended.resolve({ durationMs: systemRuntime.monotonicMs() - beganMs, reportsUsage, ...defined(facts) });
  };
  const attempt = provider.probe(request, model, {
    events: (events: GenerationEvent[]) => {
      firstEventMs ??= systemRuntime.monotonicMs() - beganMs;
      for (const { event } of events) if (event.case === 'completed') reportsUsage = event.value.usage !== undefined;
    },
    end,
  });
  const leave = (): void => {
    attempt.cancel();
    end(signal.reason instanceof Error ? signal.reason : new Error('it took too long'));
  };
  signal.addEventListener('abort', leave, { once: true });
  return ended.promise.finally(() => signal.removeEventListener('abort', leave));
}

/** Returns why a call failed, for the operator. Addresses and credentials were already removed from the provider's message. */
function describe(thrown: unknown): string {
  if (!(thrown instanceof UpstreamFailure)) {
    return thrown instanceof Error && thrown.name === 'TimeoutError'
      ? 'it did not answer in 25 s'
      : 'its answer can’t be read';
  }
  const { kind, facts } = thrown;
  const { status, message, cause } = facts;
  if (cause instanceof CredentialError) return `no credential: ${cause.message}`;
  const words = message ?? (cause instanceof Error ? cause.message : undefined);
  const what = status === undefined ? kind.replaceAll('_', ' ') : `status ${status}`;
  return words === undefined ? what : `${what}: ${words}`;
}

function say(text: string, more: Partial<GenerateRequest> = {}): GenerateRequest {
  const parts = [{ content: { case: 'text', value: { text } } }] as const;
  const message = create(ItemSchema, { content: { case: 'message', value: { role: Role.USER, parts: [...parts] } } });
  return { ...create(GenerateRequestSchema, { items: [message] }), ...more };
}

const hello = say('Say hello.');
const schemaJson =
  '{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}';

/** A PNG of one grey pixel. */
const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==';

const withTool = create(GenerateRequestSchema, {
  tools: [{ tool: { case: 'function', value: { name: 'look', parametersJson: schemaJson } } }],
  toolChoice: { mode: ToolChoiceMode.AUTO },
});
const withSchema = create(GenerateRequestSchema, {
  outputFormat: { type: OutputFormatType.JSON_SCHEMA, name: 'answer', schemaJson },
});
const withImage = create(GenerateRequestSchema, {
  items: [
    {
      content: {
        case: 'message',
        value: {
          role: Role.USER,
          parts: [
            { content: { case: 'text', value: { text: 'What is this?' } } },
            {
              content: {
                case: 'image',
                value: { source: { source: { case: 'base64', value: pixel }, mediaType: 'image/png' } },
              },
            },
          ],
        },
      },
    },
  ],
});

const trials: readonly { readonly name: string; readonly request: GenerateRequest }[] = [
  { name: 'tools', request: say('Look.', { tools: withTool.tools, ...defined({ toolChoice: withTool.toolChoice }) }) },
  { name: 'json_schema', request: say('Answer in JSON.', defined({ outputFormat: withSchema.outputFormat })) },
  { name: 'images', request: say('', { items: withImage.items }) },
];
