import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { UpstreamFailure } from '../generation/upstream.ts';
import { parseSteering, splitSteering } from './steering.ts';

const limit = 1_000;

function refusal(line: string): UpstreamFailure {
  try {
    parseSteering(line, limit);
  } catch (error) {
    if (error instanceof UpstreamFailure) return error;
    throw error;
  }
  throw new Error(`not refused: ${line}`);
}

describe('a steering line', () => {
  test('says everything that it can say', () => {
    const line =
      '!sim  tokens=2024 tps=0.5\tdelay_ms=600000 calls=128 finish=context_window ignore=stop,max_tokens,parallel,tool_choice,max_tool_calls ' +
      'usage=none status=599 times=2 fail=0 cut=3 stall=4 say=a=b  c ';
    expect(parseSteering(line, limit)).toEqual({
      tokens: 2_024,
      tps: 0.5,
      delayMs: 600_000,
      calls: 128,
      finish: 'context_window',
      ignore: new Set(['stop', 'max_tokens', 'parallel', 'tool_choice', 'max_tool_calls']),
      noUsage: true,
      status: 599,
      times: 2,
      faults: [
        { kind: 'fail', afterDeltas: 0 },
        { kind: 'cut', afterDeltas: 3 },
        { kind: 'stall', afterDeltas: 4 },
      ],
      say: 'a=b  c ',
    });
  });

  test('is empty if nothing follows, and says nothing if `say` is empty', () => {
    expect(parseSteering('!sim ', limit)).toEqual({});
    expect(parseSteering('!sim say=', limit)).toEqual({ say: '' });
  });

  test('uses the last one of two equal keys', () => {
    expect(parseSteering('!sim tokens=1 fail=1 tokens=2 fail=2', limit)).toEqual({
      tokens: 2,
      faults: [{ kind: 'fail', afterDeltas: 2 }],
    });
  });

  test.each([
    ['tokens=2025', 'tokens'],
    ['tokens=-1', 'tokens'],
    ['tokens=1e2', 'tokens'],
    ['tokens=', 'tokens'],
    ['tokens', 'tokens'],
    ['fail=2025', 'fail'],
    ['cut=x', 'cut'],
    ['stall=1.5', 'stall'],
    ['calls=129', 'calls'],
    ['delay_ms=600001', 'delay_ms'],
    ['status=399', 'status'],
    ['status=600', 'status'],
    ['tps=-1', 'tps'],
    ['tps=fast', 'tps'],
    ['times=x', 'times'],
    ['finish=never', 'finish'],
    ['usage=some', 'usage'],
    ['ignore=stop,limits', 'limits'],
    ['ignore=', 'ignore'],
    ['speed=4', 'speed'],
    ['hello', 'hello'],
    ['tokens=5 constructor=1', 'constructor'],
  ])('that says "%s" is refused by name', (words, named) => {
    const { kind, facts } = refusal(`!sim ${words}`);
    expect({ kind, status: facts.status, requested: facts.requested }).toEqual({
      kind: 'status',
      status: 400,
      requested: true,
    });
    expect(facts.message).toContain(named);
  });

  test('is refused or read, whatever it says', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.string(), fc.constantFrom('tokens=1', 'fail=2', 'say=x', '=', '\t', ' '))),
        words => {
          try {
            parseSteering(`!sim ${words.join(' ')}`, limit);
          } catch (error) {
            expect(error).toBeInstanceOf(UpstreamFailure);
          }
        },
      ),
    );
  });
});

describe('in a text', () => {
  test('the last steering line counts and none belongs to the text', () => {
    expect(splitSteering('one\n!sim tokens=1\r\ntwo\n!sim tokens=2\nthree')).toEqual({
      plain: 'one\ntwo\nthree',
      line: '!sim tokens=2',
    });
  });

  test.each(['say !sim tokens=1', ' !sim tokens=1', '!sims tokens=1', '!sim', '!SIM tokens=1'])(
    '"%s" is plain text',
    text => {
      expect(splitSteering(text)).toEqual({ plain: text, line: undefined });
    },
  );
});
