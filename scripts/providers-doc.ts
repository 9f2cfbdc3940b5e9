/**
 * Writes the generated parts of docs/providers.md, between `<!-- presets: NAME -->` and `<!-- end -->`, from the presets (`node scripts/providers-doc.ts`). The rest
 * of the page is written by hand. test/providers-doc.test.ts fails if the page differs from the script's output.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Dialect } from '../src/codecs/dialect.ts';
import { presetModels } from '../src/config/preset-models.ts';
import { addressOf, type Preset, presets } from '../src/config/presets.ts';
import { authentications } from '../src/upstreams/authentication.ts';
import { type DialectRow, dialectRows } from '../src/upstreams/dialects.ts';
import { protocols } from '../src/upstreams/protocols.ts';

/** The path of the page. */
export const providersDocPath = resolve(import.meta.dirname, '../docs/providers.md');

const code = (text: string): string => `\`${text}\``;

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

/** Returns the environment variables that enable a preset, and those that only add a key. */
function switchText({ addressVariable, accountVariable, keyVariables = [] }: Preset): string {
  const keys = keyVariables.map(code).join(' or ');
  const own = addressVariable ?? accountVariable;
  if (own === undefined) return keys;
  return keys === '' ? code(own) : `${code(own)} (key: ${keys})`;
}

function addressText(preset: Preset): string {
  const { baseUrl, addressVariable = '', addressPath = '', also = {} } = preset;
  if (baseUrl === undefined) return `${code(addressVariable)}, without a path ${code(addressPath)} below it`;
  const others = Object.keys(also).map(name => [name, addressOf(preset, name, baseUrl)] as const);
  const apart = others.filter(([, address]) => address !== undefined && address !== baseUrl);
  return [code(baseUrl), ...apart.map(([name, address = '']) => `${code(name)} at ${code(address)}`)].join(', ');
}

function authenticationText({ protocol, keyHeader, keyVariables }: Preset): string {
  if (keyVariables === undefined) return 'none';
  const authentication = protocols[protocol]?.authentication;
  if (authentication === undefined) throw new Error(`nothing speaks ${protocol}`);
  const [header, value] = authentications[authentication]('KEY');
  return keyHeader === undefined ? code(`${header}: ${value}`) : code(`${keyHeader}: KEY`);
}

function modelsText({ name, discovery }: Preset): string {
  if (discovery === 'free') return 'discovered, price 0';
  if (discovery === 'priced') return 'discovered, with its prices';
  const models = presetModels[name];
  return models === undefined ? 'the file only' : `catalogue: ${models.length}`;
}

/** Returns what a member of a dialect means. */
type MemberText<Value> = (value: Value) => string;
const dialectTexts: { readonly [Member in keyof Dialect]-?: MemberText<NonNullable<Dialect[Member]>> } = {
  limitName: name => `the output limit is called ${code(name)} only`,
  visibleLimit: names => `the output limit of ${names.map(code).join(', ')} does not count reasoning`,
  streamOptions: () => `${code('stream_options')} is not sent: usage comes without it`,
  choices: () => `${code('n')} choices are ${code('n')} calls`,
  runningCounts: where =>
    where === 'timings'
      ? `streams report their tokens as they run (${code('timings_per_token')})`
      : `streams report their tokens as they run (${code('stream_options.continuous_usage_stats')})`,
  counting: () => `counts of input are requested from it (${code('/apply-template')}, ${code('/tokenize')})`,
  developer: role => `the role ${code('developer')} becomes ${code(role)}`,
  afterResults: text => `between a tool’s result and a message of the user stands the answer “${text}”`,
  callIdLength: length => `ids of tool calls have ${length} letters and digits; others are replaced`,
  reasoning: place => reasoningTexts[place],
  renamed: names =>
    Object.entries(names)
      .map(([name, own]) => `${code(name)} is called ${code(own)}`)
      .join(', '),
  refused: names => `not sent: ${names.map(code).join(', ')}`,
  refusedInMessages: names => `not sent in messages: ${names.map(code).join(', ')}`,
  thinkingOff: members => `reasoning is switched off by ${code(JSON.stringify(members))}`,
  schemas: () => `a schema for the answer is put into the prompt, with ${code('json_object')}`,
};

const reasoningTexts = {
  reasoning: `earlier reasoning is sent as ${code('reasoning')}`,
  reasoning_content: `earlier reasoning is sent as ${code('reasoning_content')}`,
  parts: 'earlier reasoning is sent as thinking parts of the content',
} as const;

function memberText<Member extends keyof Dialect>(member: Member, value: NonNullable<Dialect[Member]>): string {
  const text: MemberText<never> = dialectTexts[member];
  return (text as MemberText<typeof value>)(value);
}

/** Returns the lines of a dialect, each with its source. */
function rowLines(row: DialectRow): string[] {
  const members = Object.keys(row) as (keyof Dialect)[];
  return members.flatMap(member => {
    const line = row[member];
    return line === undefined ? [] : [`  - ${memberText(member, line[0])} (${line[1]})`];
  });
}

const sections: Readonly<Record<string, () => string>> = {
  'at a glance': () =>
    table(
      ['provider', 'name', 'enabled by', 'protocols', 'key sent as', 'models from'],
      presets.map(preset => [
        preset.title,
        code(preset.name),
        switchText(preset),
        [preset.protocol, ...Object.keys(preset.also ?? {})].map(code).join(', '),
        authenticationText(preset),
        modelsText(preset),
      ]),
    ),
  addresses: () => presets.map(preset => `- ${preset.title}: ${addressText(preset)}`).join('\n'),
  dialects: () =>
    presets
      .flatMap(({ name, title }) => {
        const row = dialectRows[name];
        return row === undefined ? [] : [`- ${title}:`, ...rowLines(row)];
      })
      .join('\n'),
  models: () =>
    presets
      .filter(({ name }) => presetModels[name] !== undefined)
      .map(
        ({ name, title }) =>
          `- ${title}: ${(presetModels[name] ?? []).map(({ model }) => code(`${name}/${model}`)).join(', ')}`,
      )
      .join('\n'),
};

/** Returns the page with its generated parts updated. Throws if the page has an unknown part or lacks one. */
export function withFacts(page: string): string {
  const missing = new Set(Object.keys(sections));
  const made = page.replace(
    /(<!-- presets: ([a-z ]+) -->\n)[^]*?(<!-- end -->)/g,
    (_, begin: string, name: string, end: string) => {
      const section = sections[name];
      if (section === undefined || !missing.delete(name)) throw new Error(`the page has a place for ${name}`);
      return `${begin}\n${section()}\n\n${end}`;
    },
  );
  if (missing.size > 0) throw new Error(`the page has no place for ${[...missing].join(', ')}`);
  return made;
}

if (import.meta.main) writeFileSync(providersDocPath, withFacts(readFileSync(providersDocPath, 'utf8')));
