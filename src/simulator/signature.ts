import { createHash, createHmac } from 'node:crypto';
import type { Item, Opaque, Reasoning } from '../gen/tollgate/v1/content_pb.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { ownOpaque, simulatorProvider } from './items.ts';

/**
 * The two forms in which providers return sealed data: a signature of the visible reasoning, or the reasoning itself,
 * sealed.
 */
export type SealKind = 'anthropic.signature' | 'openai.encrypted';

/** Not a secret: it detects blobs that were damaged, cut or moved to other reasoning, as a real provider would. */
const macKey = 'tollgate-simulator';

function computeMac(kind: string, payload: string): string {
  return createHmac('sha256', macKey).update(`${kind}\n${payload}`).digest('base64url');
}

function hashText(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}

/** Seals reasoning so that the client can send it back. */
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
  // A client that was shown no reasoning (or a summary) sends none back.
  return opaque.kind !== 'anthropic.signature' || reasoningText === '' || payload === hashText(reasoningText);
}

/** Checks every blob of the simulator's own in a conversation. Throws `UpstreamFailure` (status 400) that names the first bad one. */
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
