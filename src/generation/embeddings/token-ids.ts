import type { GptEncoding } from 'gpt-tokenizer/GptEncoding';

/** The vocabularies whose token ids can be decoded. */
export const vocabularies = ['cl100k_base', 'o200k_base'] as const;
/** The name of a vocabulary whose token ids can be decoded. */
export type Vocabulary = (typeof vocabularies)[number];

type Decoder = Pick<GptEncoding, 'decode'>;

// Loaded at the first use, because each takes tens of milliseconds and tens of megabytes.
const loaders: Readonly<Record<Vocabulary, () => Promise<Decoder>>> = {
  cl100k_base: () => import('gpt-tokenizer/encoding/cl100k_base'),
  o200k_base: () => import('gpt-tokenizer/encoding/o200k_base'),
};

/** Returns whether a name is that of a vocabulary whose token ids can be decoded. */
export function isVocabulary(name: string): name is Vocabulary {
  return (vocabularies as readonly string[]).includes(name);
}

/** Returns a function that decodes token ids to their text. It returns undefined if an id is not in the vocabulary. */
export async function loadDecoder(vocabulary: Vocabulary): Promise<(ids: readonly number[]) => string | undefined> {
  const decoder = await loaders[vocabulary]();
  return ids => {
    try {
      return decoder.decode(ids);
    } catch {
      return undefined;
    }
  };
}
