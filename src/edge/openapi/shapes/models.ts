import * as z from 'zod';
import { named } from '../json-schema.ts';
import { time } from './fields.ts';

/** The catalogue. Source: docs/interfaces/models.md "The list". */

const price = z.number().nullable();
const caching = z
  .object({
    read: price.describe('Input that was read from a cache.'),
    write_5m: price.describe('Input that was written for 5 minutes.'),
    write_1h: price.describe('Input that was written for an hour.'),
    write_30m: price.optional().describe('Input that was written for half an hour.'),
    write_12h: price.optional().describe('Input that was written for twelve hours.'),
  })
  .nullable()
  .describe('Prices of cached input; null: charged as uncached input.');
const tokenPrices = {
  input: price.describe('Dollars per 1 million tokens; null: no such price.'),
  output: price.describe('Dollars per 1 million tokens; null: no such price.'),
};

const pricing = z.object({
  ...tokenPrices,
  image: price.describe('Dollars per image; null: no such price.'),
  search: price.optional().describe('Dollars per search of up to 100 documents.'),
  tools: z
    .record(z.string(), z.number())
    .optional()
    .describe('Dollars per call of a tool that the provider runs, by the tool’s name.'),
  image_tokens: z
    .object({ text_input: price, image_input: price, cached_input: price, output: price })
    .optional()
    .describe('Prices of an image model that counts tokens, in dollars per 1 million.'),
  tiers: z
    .record(z.string(), z.number())
    .optional()
    .describe('The price factors of tiers; without it, flex has 0.5 and priority 2.'),
  batch: z.number().optional().describe('The price factor in batches.'),
  caching,
  above: z
    .array(
      z.object({
        input_tokens: z.int().describe('These prices apply to requests with more input tokens than this.'),
        ...tokenPrices,
        caching,
      }),
    )
    .describe(
      'Prices of requests with more input; the highest threshold that is exceeded applies to the whole request.',
    ),
  images: z
    .array(z.object({ size: z.string().nullable(), quality: z.string().nullable(), image: z.number() }))
    .optional()
    .describe('Prices of images at other sizes and qualities: the first entry that fits applies; null means any.'),
});

const model = named(
  'Model',
  z.object({
    id: z.string().describe('The id that requests name the model by.'),
    object: z.literal('model'),
    created: z.int().describe('Unix time in seconds.'),
    owned_by: z.string().describe('Who offers the model.'),
    type: z.literal('model'),
    display_name: z.string().describe('A name for people.'),
    created_at: time.describe('The same time as `created`.'),
    name: z.string().describe('A name for people.'),
    description: z.string().describe('What the model is good for.'),
    context_length: z.int().nullable().describe('The most tokens of input and output together; null: not known.'),
    max_output_tokens: z.int().nullable().describe('The most output tokens of a request; null: not known.'),
    endpoints: z.array(z.string()).describe('The paths that the model can be used on.'),
    capabilities: z
      .object({
        vision: z.boolean(),
        function_call: z.boolean(),
        reasoning: z.boolean(),
        dimensions: z.boolean().optional().describe('For embeddings: whether the length of the vectors can be chosen.'),
        service_tiers: z
          .array(z.string())
          .describe('`flex`, `priority`, and further tiers for which the model has a price.'),
      })
      .describe('What the model can do.'),
    available: z.boolean().describe('False if no route to the model works now.'),
    pricing,
    deprecated_at: time.nullable().describe('Since when it should no longer be used; null: it may be.'),
    retires_at: time.nullable().describe('From when on it can’t be used; null: no date is set.'),
    replacement: z.string().nullable().describe('The model to use instead; null: none is named.'),
  }),
);

/** The catalogue's answers. */
export const models = {
  model,
  list: named(
    'ModelList',
    z.object({
      object: z.literal('list'),
      data: z.array(model),
      first_id: z.string().nullable().describe('The first id of the page: `before_id` of the previous page.'),
      last_id: z.string().nullable().describe('The last id of the page: `after_id` of the next page.'),
      has_more: z.boolean().describe('Whether there are more models after the page.'),
    }),
  ),
};
