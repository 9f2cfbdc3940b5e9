import { createHash, createHmac } from 'node:crypto';
import type { Item, Opaque, Reasoning } from '../gen/tollgate/v1/content_pb.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { ownOpaque, simulatorProvider } from './items.ts';

/** The two forms in which providers hand out what they want back: a signature of the visible thoughts, or the thoughts themselves, sealed. */
export type SealKind = 'anthropic.signature' | 'openai.encrypted';

/** No secret: it finds blobs that were damaged, cut or moved to other thoughts, as a real provider would. */
const macKey = 'tollgate-simulator';

function macOf(kind: string, payload: string): string {
  return createHmac('sha256', macKey).update(`${kind}\n${payload}`).digest('base64url');
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}

/** Seals thoughts so that the client can give them back. */
export function sealThoughts(kind: SealKind, model: string, thoughts: string): Opaque {
  const payload =
    kind === 'anthropic.signature' ? digestOf(thoughts) : Buffer.from(thoughts, 'utf8').toString('base64url');
  return ownOpaque(kind, model, `${payload}.${macOf(kind, payload)}`);
}

function isIntact(opaque: Opaque, reasoning: Reasoning): boolean {
  const [payload = '', mac] = opaque.data.split('.', 2);
  if (mac !== macOf(opaque.kind, payload)) return false;
  const shown = reasoning.parts.map(({ content }) => (content.case === 'reasoningText' ? content.value.text : ''));
  const thoughts = shown.join('');
  // A client that was shown no thoughts (or a summary) gives back none.
  return opaque.kind !== 'anthropic.signature' || thoughts === '' || payload === digestOf(thoughts);
}

/** Checks every blob of the simulator's own in a conversation. Throws `UpstreamFailure` (status 400) that names the first bad one. */
export function verifyThoughts(items: readonly Item[]): void {
  let number = 0;
  for (const { content } of items) {
    if (content.case !== 'reasoning') continue;
    number += 1;
    for (const opaque of content.value.opaque) {
      if (opaque.provider !== simulatorProvider || isIntact(opaque, content.value)) continue;
      const what = opaque.kind === 'anthropic.signature' ? 'signature' : 'encrypted content';
      throw new UpstreamFailure('status', {
        status: 400,
        message: `The ${what} of reasoning item ${number} of the conversation does not belong to it: give it back unchanged.`,
      });
    }
  }
}
