import { expect, test } from 'vitest';
import { chatCodec } from '../../codecs/chat/index.ts';
import type { Json } from '../../codecs/codec.ts';
import { mayBeCut, wasCut } from './input-cut.ts';

function decode(content: Json): Parameters<typeof wasCut>[0] {
  const body = { model: 'm', messages: [{ role: 'user', content }] };
  return chatCodec.decodeRequest({ body, raw: Buffer.from(JSON.stringify(body)), headers: {} }).request;
}
const prose = 'The mayor of the town opened the new bridge in the morning. '.repeat(200);

test('a prompt of which the upstream counted a small part was cut', async () => {
  expect(await wasCut(decode(prose), 500)).toBe(true);
  expect(await wasCut(decode(prose), 2_400)).toBe(false);
  expect(mayBeCut(500, 3_000)).toBe(true);
});

test('a file of another provider’s form, whose base64 no upstream counts as text, does not make it look cut', async () => {
  const base64 = Buffer.from(prose).toString('base64');
  const part = { type: 'document_url', document_url: `data:application/pdf;base64,${base64}` };
  expect(await wasCut(decode([{ type: 'text', text: 'Read this.' }, part]), 94)).toBe(false);
});
