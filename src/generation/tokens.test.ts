import { create } from '@bufbuild/protobuf';
import { encode as encodeWhole } from 'gpt-tokenizer/encoding/o200k_base';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Role } from '../gen/tollgate/v1/content_pb.ts';
import { GenerateRequestSchema } from '../gen/tollgate/v1/request_pb.ts';
import { countInput, estimateInput, estimateTokens, loadTokenizer, tokenRuns } from './tokens.ts';
import { anyCharacters } from '../lib/any-text.fixtures.ts';

const tokenizer = await loadTokenizer();

/** Texts of characters of every kind, and of lone surrogates. */
const anyText = fc.oneof(
  anyCharacters({ maxLength: 2_000 }),
  fc.string({ unit: 'grapheme', maxLength: 2_000 }),
  fc.string({
    unit: fc.constantFrom('a', ' ', '\n', '中', '🦄', '\ud83e', '.', '1', '\u0301', '\r\n', 'É'),
    maxLength: 2_000,
  }),
);

const words = fc.array(
  fc.constantFrom('the', 'Tollgate', 'meters', 'every', 'request,', 'naïve', '42', '(and)', 'it’s'),
  {
    minLength: 1,
    maxLength: 3_000,
  },
);

describe('the tokenizer', () => {
  test('splits into texts that concatenate to the whole and never split a code point', () => {
    fc.assert(
      fc.property(anyText, text => {
        const pieces = tokenizer.split(text);
        expect(pieces.join('')).toBe(text);
        expect(pieces.every(piece => piece !== '')).toBe(true);
        if (text.isWellFormed()) expect(pieces.every(piece => piece.isWellFormed())).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  test('counts as many tokens as it encodes, and as its pieces have together', () => {
    fc.assert(
      fc.property(anyText, text => {
        const count = tokenizer.count(text);
        expect(tokenizer.encode(text)).toHaveLength(count);
        expect(Array.from(tokenizer.pieces(text)).reduce((sum, piece) => sum + piece.tokens, 0)).toBe(count);
      }),
      { numRuns: 300 },
    );
  });

  test('encodes ordinary text of any length as if it were not cut into runs', () => {
    fc.assert(
      fc.property(words, list => {
        const text = list.join(' ');
        expect(tokenizer.encode(text)).toEqual(encodeWhole(text));
      }),
      { numRuns: 50 },
    );
  });

  test('treats special tokens as plain text', () => {
    const text = 'a <|endoftext|> b <|im_start|>';
    expect(tokenizer.split(text).join('')).toBe(text);
    expect(tokenizer.count('<|endoftext|>')).toBeGreaterThan(3);
  });

  test.each([
    [
      '200,000 Chinese characters',
      Array.from({ length: 200_000 }, (_, at) => String.fromCodePoint(0x4e00 + ((at * 7_919) % 20_000))).join(''),
    ],
    ['one Chinese character 200,000 times', '中'.repeat(200_000)],
    ['300,000 × a', 'a'.repeat(300_000)],
    ['300,000 spaces', ' '.repeat(300_000)],
    ['300,000 × =', '='.repeat(300_000)],
    ['100,000 emoji', '🦄'.repeat(100_000)],
    ['300,000 combining marks', '\u0301'.repeat(300_000)],
  ])('takes linear time for %s', (_, text) => {
    const before = process.cpuUsage();
    expect(tokenizer.count(text)).toBeGreaterThan(100);
    // CPU time of this process, so that the load of the machine does not matter: usually a third of a second; half a minute or more if time were quadratic.
    expect(process.cpuUsage(before).user / 1000).toBeLessThan(4_000);
  });

  test('cuts long texts into short runs, and cuts the common beginning of two texts at the same places', () => {
    const prefix = 'All that is gold does not glitter. '.repeat(100);
    const [a, b] = [`${prefix}Not all those who wander`, `${prefix}are lost`].map(text => Array.from(tokenRuns(text)));
    expect(a?.slice(0, -2)).toEqual(b?.slice(0, (a?.length ?? 0) - 2));
    expect(a?.every(run => run.length <= 512)).toBe(true);
    expect(Array.from(tokenRuns('x'.repeat(10_000))).every(run => run.length <= 512)).toBe(true);
  });
});

const samples: readonly [name: string, text: string][] = [
  [
    'English',
    'The quick brown fox jumps over the lazy dog; nobody knows why it does, or what it thinks it’s going to find there.',
  ],
  [
    'German',
    'Die Rechtsschutzversicherungsgesellschaften prüfen die Geschwindigkeitsbegrenzungen der Donaudampfschifffahrt.',
  ],
  ['Polish', 'W Szczebrzeszynie chrząszcz brzmi w trzcinie i Szczebrzeszyn z tego słynie.'],
  ['Turkish', 'Yapay zekâ hakkında daha fazla bilgi edinmek istiyorum, lütfen açıklayınız.'],
  ['Vietnamese', 'Xin chào, hôm nay thời tiết thế nào? Tôi muốn tìm hiểu thêm về trí tuệ nhân tạo.'],
  ['Russian', 'Сегодня хорошая погода, и мы решили пойти гулять в парк. Напишите краткое содержание статьи.'],
  ['Greek', 'Καλημέρα, πώς είσαι σήμερα; Θα ήθελα να μάθω περισσότερα για την τεχνητή νοημοσύνη.'],
  ['Arabic', 'مرحبا كيف حالك اليوم؟ أريد أن أتعلم المزيد عن الذكاء الاصطناعي وتطبيقاته في الحياة اليومية.'],
  ['Hebrew', 'שלום, מה שלומך היום? אני רוצה ללמוד עוד על בינה מלאכותית.'],
  ['Hindi', 'नमस्ते, आज मौसम कैसा है? कृपया मुझे इस लेख का सारांश दीजिए।'],
  ['Thai', 'สวัสดีครับ วันนี้อากาศเป็นอย่างไรบ้าง ช่วยสรุปบทความนี้ให้หน่อย'],
  ['Amharic', 'ሰላም ዛሬ እንዴት ነህ? ስለ ሰው ሰራሽ አስተውሎት የበለጠ ማወቅ እፈልጋለሁ።'],
  ['Chinese', '人工智能正在改变世界,许多公司利用大型语言模型来提高生产效率。北京今天的天气怎么样?'],
  ['Japanese', '今日は天気がとても良いので、公園へ散歩に行きました。プログラミングを勉強しています。'],
  ['Korean', '안녕하세요. 오늘 서울의 날씨는 어떻습니까? 인공지능 모델을 사용하여 문서를 요약해 주세요.'],
  ['emoji', '😀🎉👍🏽🇩🇪👨‍👩‍👧‍👦❤️🔥💯🦄🫠🪿🧑🏿‍🚀'],
  [
    'code',
    'export function isSafeCut(text: string, at: number): boolean {\n  return text.charCodeAt(at) === 32 && !done[at]?.x;\n}\n',
  ],
  [
    'minified code',
    'var a=function(b,c){for(var d=0,e=b.length;d<e;++d)if(!c(b[d],d))return!1;return!0};a([1,2,3],x=>x%2==0||x!==7);',
  ],
  [
    'JSON',
    '{"id":"req_0aZ19","usage":{"input_tokens":1024,"output_tokens":77},"items":[{"type":"message","role":"user"}]}',
  ],
  [
    'a log',
    '2026-11-21T10:51:09.123Z INFO [main] request_id=req_0123abcDEF status=200 latency_ms=12.5 path=/v1/chat/completions\n',
  ],
  ['a table', '| what | decision |\n| --- | --- |\n| runtime | Node.js, **pinned** |\n| body | 64 MiB |\n'],
  ['hexadecimal', 'a3f91c0e77b2d45f8091ab3cde4567890f1e2d3c4b5a69788796a5b4c3d2e1f0'],
  ['mathematics', '∀ε>0 ∃δ>0: |x−a|<δ ⇒ |f(x)−f(a)|<ε; ∑_{i=1}^n i² = n(n+1)(2n+1)/6 ≈ ∫₀ⁿ x² dx'],
];

describe('the estimate', () => {
  test.each(samples)('of %s has bounds around the real count, at most four times it', (_, sample) => {
    for (const text of [sample, sample.repeat(20)]) {
      const real = tokenizer.count(text);
      const { low, high } = estimateTokens(text);
      expect(high).toBeGreaterThanOrEqual(real * 1.02);
      expect(high).toBeLessThanOrEqual(real * 4);
      expect(low).toBeLessThanOrEqual(real);
    }
  });

  test('of any mixture of ordinary texts has bounds around the real count', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(...samples.map(([, text]) => text)), { minLength: 1, maxLength: 6 }),
        texts => {
          const text = texts.join('\n');
          const real = tokenizer.count(text);
          const { low, high } = estimateTokens(text);
          expect(low).toBeLessThanOrEqual(real);
          expect(high).toBeGreaterThanOrEqual(real * 1.02);
        },
      ),
    );
  });

  test('of random base64, Chinese characters, letters or digits has bounds around the real count', () => {
    const alphabets = [
      'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/',
      '0123456789abcdef',
      'abcdefghijklmnopqrstuvwxyz',
      '0123456789',
      Array.from({ length: 2_000 }, (_, at) => String.fromCodePoint(0x4e00 + at * 10)).join(''),
      Array.from({ length: 500 }, (_, at) => String.fromCodePoint(0x1f300 + at)).join(''),
    ];
    fc.assert(
      fc.property(fc.constantFrom(...alphabets), fc.infiniteStream(fc.nat(1 << 20)), (alphabet, numbers) => {
        const characters = Array.from(alphabet);
        const text = Array.from(numbers.take(2_000), at => characters[at % characters.length]).join('');
        const real = tokenizer.count(text);
        expect(estimateTokens(text).high).toBeGreaterThanOrEqual(real);
        expect(estimateTokens(text).low).toBeLessThanOrEqual(real);
      }),
      { numRuns: 60 },
    );
  });

  test('takes less than 150 ns of CPU time per character', () => {
    const text = samples
      .map(([, each]) => each)
      .join(' ')
      .repeat(1_000);
    const start = process.cpuUsage();
    estimateTokens(text);
    expect((process.cpuUsage(start).user * 1e3) / text.length).toBeLessThan(150);
  });

  test('of an empty text is 0', () => {
    expect(estimateTokens('')).toEqual({ low: 0, high: 0 });
  });
});

describe('a request', () => {
  const text = (value: string): { content: { case: 'text'; value: { text: string } } } => ({
    content: { case: 'text', value: { text: value } },
  });
  const request = create(GenerateRequestSchema, {
    instructions: 'Be kind.',
    items: [
      { content: { case: 'message', value: { role: Role.USER, parts: [text('What is the weather in Paris?')] } } },
      { content: { case: 'toolCall', value: { callId: 'c', name: 'get_weather', arguments: '{"city":"Paris"}' } } },
      { content: { case: 'toolResult', value: { callId: 'c', parts: [text('cloudy, 12 °C')] } } },
    ],
    tools: [{ tool: { case: 'function', value: { name: 'get_weather', parametersJson: '{"type":"object"}' } } }],
  });

  test('is counted with all its texts and the tokens that frame them', () => {
    const texts = ['Be kind.', 'What is the weather in Paris?', 'get_weather\n{"city":"Paris"}', 'cloudy, 12 °C'];
    const tool = tokenizer.count('get_weather\n\n{"type":"object"}') + 8;
    const textTokens = texts.reduce((sum, each) => sum + tokenizer.count(each), 0);
    expect(countInput(request, tokenizer)).toBe(textTokens + tool + 4 + 4 + 6 + 6 + 3);
  });

  test('is estimated above its count, with a fixed number of tokens for each image and file', () => {
    expect(estimateInput(request)).toBeGreaterThan(countInput(request, tokenizer));
    const source = { source: { case: 'base64' as const, value: 'AAAA'.repeat(1_000) } };
    const parts = [
      { content: { case: 'image' as const, value: { source } } },
      { content: { case: 'file' as const, value: { source, filename: 'a.pdf' } } },
    ];
    const message = { content: { case: 'message' as const, value: { role: Role.USER, parts } } };
    const withMedia = create(GenerateRequestSchema, { items: [...request.items, message] });
    const plain = create(GenerateRequestSchema, { items: request.items });
    expect(estimateInput(withMedia) - estimateInput(plain)).toBeGreaterThan(2 * 2_048 + 1_000);
    expect(estimateInput(withMedia)).toBeGreaterThan(countInput(withMedia, tokenizer));
  });
});
