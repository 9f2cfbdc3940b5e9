import type { GptEncoding } from 'gpt-tokenizer/GptEncoding';

/** The vocabularies of token ids that can be read. */
export const vocabularies = ['cl100k_base', 'o200k_base'] as const;
/** One of them. */
export type Vocabulary = (typeof vocabularies)[number];

type Decoder = Pick<GptEncoding, 'decode'>;

// Loaded at first use: each takes tens of milliseconds and megabytes.
const loaders: Readonly<Record<Vocabulary, () => Promise<Decoder>>> = {
  cl100k_base: () => import('gpt-tokenizer/encoding/cl100k_base'),
  o200k_base: () => import('gpt-tokenizer/encoding/o200k_base'),
};

/** Returns whether a name is that of a vocabulary that can be read. */
export function isVocabulary(name: string): name is Vocabulary {
  return (vocabularies as readonly string[]).includes(name);
}

/** Returns what turns token ids into their text. It returns undefined for ids that the vocabulary lacks. */
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
