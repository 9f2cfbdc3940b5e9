import { createHash, createHmac } from 'node:crypto';
import type { Item, Opaque, Reasoning } from '../gen/tollgate/v1/content_pb.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { ownOpaque, simulatorProvider } from './items.ts';

/**
 * The two kinds of sealed data that providers return: a signature of the visible reasoning, or the encrypted reasoning
 * itself.
 */
export type SealKind = 'anthropic.signature' | 'openai.encrypted';

/** The key of the checksum of blobs. It is not a secret: like a real provider, the simulator detects blobs that were damaged, cut or moved to other reasoning. */
const macKey = 'tollgate-simulator';

function computeMac(kind: string, payload: string): string {
  return createHmac('sha256', macKey).update(`${kind}\n${payload}`).digest('base64url');
}

function hashText(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}

/** Returns a blob for the reasoning, which the client can send back. */
export function sealReasoning(kind: SealKind, model: string, reasoningText: string): Opaque {
  const payload =
    kind === 'anthropic.signature' ? hashText(reasoningText) : Buffer.from(reasoningText, 'utf8').toString('base64url');
  return ownOpaque(kind, model, `${payload}.${computeMac(kind, payload)}`);
}

function isIntact(opaque: Opaque, reasoning: Reasoning): boolean {
  const [payload = '', mac] = opaque.data.split('.', 2);
  if (mac !== computeMac(opaque.kind, payload)) return false;
  const shown = reasoning.parts.map(({ content }) => (content.case === 'reasoningText' ? content.value.text : ''));
  const reasoningText = shown.join('');
  // A client that has got no reasoning, or only a summary, sends none back.
  return opaque.kind !== 'anthropic.signature' || reasoningText === '' || payload === hashText(reasoningText);
}

/** Checks all blobs of the simulator in a conversation. Throws `UpstreamFailure` (status 400), which names the first wrong one. */
export function verifyReasoning(items: readonly Item[]): void {
  let number = 0;
  for (const { content } of items) {
    if (content.case !== 'reasoning') continue;
    number += 1;
    for (const opaque of content.value.opaque) {
      if (opaque.provider !== simulatorProvider || isIntact(opaque, content.value)) continue;
      const what = opaque.kind === 'anthropic.signature' ? 'signature' : 'encrypted content';
      throw new UpstreamFailure('status', {
        status: 400,
        message: `The ${what} of reasoning item ${number} of the conversation does not belong to it: send it back unchanged.`,
      });
    }
  }
}
