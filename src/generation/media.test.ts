import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decodeBase64, parseDataUrl } from './media.ts';

describe('base64', () => {
  test('decodes to the original bytes, in either alphabet, with or without padding', () => {
    fc.assert(
      fc.property(fc.uint8Array(), bytes => {
        const buffer = Buffer.from(bytes);
        for (const text of [buffer.toString('base64'), buffer.toString('base64url')]) {
          expect(decodeBase64(text)).toEqual(buffer);
        }
      }),
    );
  });

  test('with line breaks is decoded', () => {
    expect(decodeBase64('aGVs\r\nbG8=\n')?.toString()).toBe('hello');
  });

  test.each(['not base64!', 'aGVsbG8=aGVsbG8=', 'a', 'aGVsb€8='])('"%s" is rejected', text => {
    expect(decodeBase64(text)).toBeUndefined();
  });
});

describe('a data URL', () => {
  test('is split into its type and its data', () => {
    expect(parseDataUrl('data:image/png;base64,AAAA')).toEqual({ mediaType: 'image/png', base64: 'AAAA' });
    expect(parseDataUrl('DATA:text/plain;charset=utf-8;base64,AA==')).toEqual({
      mediaType: 'text/plain',
      base64: 'AA==',
    });
    expect(parseDataUrl('data:;base64,AAAA')).toEqual({ mediaType: '', base64: 'AAAA' });
  });

  test.each(['https://example.com/a.png', 'data:image/png,AAAA', '', 'data:'])('"%s" is rejected', url => {
    expect(parseDataUrl(url)).toBeUndefined();
  });
});
