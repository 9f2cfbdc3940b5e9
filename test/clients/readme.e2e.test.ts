/** Runs the README's lines for the official clients as a program, unchanged except for the address. */
import { mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { endGateway, root, run } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n' });
afterAll(() => endGateway(gateway));

test('the two lines of the README make clients that get an answer', async () => {
  const [, block = ''] = /^```ts\n([^]*?)^```/m.exec(readFileSync(join(root, 'README.md'), 'utf8')) ?? [];
  const lines = block.trim().replaceAll('http://127.0.0.1:8080', gateway.url).split('\n');
  expect(lines.map(line => line.split('(')[0])).toEqual(['new OpenAI', 'new Anthropic']);
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-readme-'));
  symlinkSync(join(import.meta.dirname, 'node_modules'), join(folder, 'node_modules'));
  const program = join(folder, 'program.mjs');
  writeFileSync(
    program,
    `import OpenAI from 'openai';
import Anthropic from '@anthropic-ai/sdk';
const apiKey = process.env.API_KEY;
const openai = ${lines[0]}
const anthropic = ${lines[1]}
const messages = [{ role: 'user', content: '!sim say=Hello.' }];
const completion = await openai.chat.completions.create({ model: 'sim/large', messages });
const message = await anthropic.messages.create({ model: 'sim/large', max_tokens: 20, messages });
console.log(JSON.stringify([completion.choices[0].message.content, message.content[0].text]));
`,
  );
  const { ended } = run([process.execPath, program], {
    cwd: folder,
    env: { PATH: process.env['PATH'] ?? '', API_KEY: gateway.apiKey },
  });
  const { code, stdout, stderr } = await ended;
  expect([code, stderr, JSON.parse(stdout || 'null')]).toEqual([0, '', ['Hello.', 'Hello.']]);
});
