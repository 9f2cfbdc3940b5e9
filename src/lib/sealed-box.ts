import { createCipheriv, createDecipheriv, createHmac, hkdfSync } from 'node:crypto';

/**
 * Authenticated encryption of content that clients store for the gateway: AES-256-GCM with keys derived from the server secret. A sealed text
 * is `tg1.` followed by the base64url of key id (4 bytes), nonce (12), ciphertext and tag (16).
 */

const prefix = 'tg1.';
const keyIdBytes = 4;
const nonceBytes = 12;
const tagBytes = 16;

interface Key {
  readonly id: Buffer;
  readonly encryption: Buffer;
  readonly nonce: Buffer;
}

/**
 * Encrypts ("seals") and decrypts ("opens") content. The same content in the same context always gives the same text, so that
 * a replayed answer is exactly the same.
 */
export class SealedBox {
  readonly #keys: readonly Key[];
  readonly #current: Key;

  /** `secrets`: the first one seals, all of them open. Throws if the list is empty. */
  constructor(secrets: readonly string[]) {
    this.#keys = secrets.map(deriveKey);
    const [current] = this.#keys;
    if (current === undefined) throw new Error('there is no server secret');
    this.#current = current;
  }

  /** Returns whether a text looks like a sealed one. */
  static isSealed(text: string): boolean {
    return text.startsWith(prefix);
  }

  /** Returns the sealed text. `context`: the kind and the owner of the content; the text can be opened only with the same context. */
  seal(content: Uint8Array, context: string): string {
    const { id, encryption, nonce: nonceKey } = this.#current;
    // The nonce is derived from everything that it protects, so equal nonces mean equal content.
    const nonce = createHmac('sha256', nonceKey)
      .update(`${context.length}:${context}`)
      .update(content)
      .digest()
      .subarray(0, nonceBytes);
    const cipher = createCipheriv('aes-256-gcm', encryption, nonce).setAAD(Buffer.from(context));
    const sealed = Buffer.concat([id, nonce, cipher.update(content), cipher.final(), cipher.getAuthTag()]);
    return prefix + sealed.toString('base64url');
  }

  /** Returns the content; undefined if the text was changed, has another context or was sealed with an unknown secret. */
  open(text: string, context: string): Uint8Array | undefined {
    if (!SealedBox.isSealed(text)) return undefined;
    const encoded = text.slice(prefix.length);
    const bytes = Buffer.from(encoded, 'base64url');
    // Refuses other encodings of the same bytes.
    if (bytes.length < keyIdBytes + nonceBytes + tagBytes || bytes.toString('base64url') !== encoded) return undefined;
    const key = this.#keys.find(({ id }) => id.equals(bytes.subarray(0, keyIdBytes)));
    if (key === undefined) return undefined;
    const nonce = bytes.subarray(keyIdBytes, keyIdBytes + nonceBytes);
    const decipher = createDecipheriv('aes-256-gcm', key.encryption, nonce, { authTagLength: tagBytes })
      .setAAD(Buffer.from(context))
      .setAuthTag(bytes.subarray(-tagBytes));
    try {
      return Buffer.concat([decipher.update(bytes.subarray(keyIdBytes + nonceBytes, -tagBytes)), decipher.final()]);
    } catch {
      return undefined;
    }
  }
}

function deriveKey(secret: string): Key {
  const derive = (purpose: string, length: number): Buffer =>
    Buffer.from(hkdfSync('sha256', secret, '', `tollgate sealed box 1: ${purpose}`, length));
  return { id: derive('id', keyIdBytes), encryption: derive('encryption', 32), nonce: derive('nonce', 32) };
}
