import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Breaker, type BreakerCaller, type BreakerState, defaultBreakerPolicy, type Permit } from './breaker.ts';

function setUp(): { breaker: Breaker; clock: { at: number; now(): number }; states: BreakerState[] } {
  const clock = {
    at: 1_000_000,
    now(): number {
      return this.at;
    },
  };
  const states: BreakerState[] = [];
  return { breaker: new Breaker(clock, defaultBreakerPolicy, state => states.push(state)), clock, states };
}

function takePermit(breaker: Breaker): Permit {
  const permit = breaker.acquire();
  if (permit === undefined) throw new Error('no permit');
  return permit;
}

function fail(breaker: Breaker, times: number): void {
  for (let time = 0; time < times; time += 1) takePermit(breaker).failed();
}

test('the fifth failure in a row opens the breaker, the fourth does not', () => {
  const { breaker, states } = setUp();
  fail(breaker, 4);
  expect([breaker.state, breaker.passable]).toEqual(['closed', true]);
  fail(breaker, 1);
  expect([breaker.state, breaker.passable, breaker.acquire()]).toEqual(['open', false, undefined]);
  expect(states).toEqual(['open']);
});

test('a success ends the series of failures; a result that says nothing about the route does not', () => {
  const { breaker } = setUp();
  fail(breaker, 4);
  takePermit(breaker).succeeded();
  fail(breaker, 4);
  expect(breaker.state).toBe('closed');
  takePermit(breaker).released();
  fail(breaker, 1);
  expect(breaker.state).toBe('open');
});

test('only the first report of a request counts', () => {
  const { breaker } = setUp();
  const permit = takePermit(breaker);
  for (let time = 0; time < 9; time += 1) permit.failed();
  expect(breaker.state).toBe('closed');
});

test('after ten seconds one request may try, and only one', () => {
  const { breaker, clock } = setUp();
  fail(breaker, 5);
  clock.at += 9_999;
  expect(breaker.acquire()).toBeUndefined();
  clock.at += 1;
  expect(breaker.passable).toBe(true);
  takePermit(breaker);
  expect([breaker.state, breaker.passable, breaker.acquire()]).toEqual(['half_open', false, undefined]);
});

test('a probe that succeeds closes the breaker; one that fails opens it for ten seconds more', () => {
  const { breaker, clock, states } = setUp();
  fail(breaker, 5);
  clock.at += 10_000;
  takePermit(breaker).failed();
  expect(breaker.acquire()).toBeUndefined();
  clock.at += 10_000;
  takePermit(breaker).succeeded();
  expect(breaker.state).toBe('closed');
  fail(breaker, 4);
  expect(breaker.state).toBe('closed');
  expect(states).toEqual(['open', 'half_open', 'open', 'half_open', 'closed']);
});

test('if a probe’s caller disconnects, another request may try', () => {
  const { breaker, clock } = setUp();
  fail(breaker, 5);
  clock.at += 10_000;
  takePermit(breaker).released();
  expect(breaker.passable).toBe(true);
  takePermit(breaker).succeeded();
  expect(breaker.state).toBe('closed');
});

test('when a probe’s answer begins, other requests may pass, but the next failure opens the breaker immediately', () => {
  const { breaker, clock } = setUp();
  fail(breaker, 5);
  clock.at += 10_000;
  const probe = takePermit(breaker);
  probe.answering();
  expect(breaker.passable).toBe(true);
  const other = takePermit(breaker);
  probe.failed();
  expect(breaker.state).toBe('open');
  // The other request began before the breaker opened.
  other.succeeded();
  expect(breaker.state).toBe('open');
});

test('after a probe’s answer has begun, one failure of any request opens the breaker, until a success', () => {
  for (const [succeeds, expected] of [
    [false, 'open'],
    [true, 'closed'],
  ] as const) {
    const { breaker, clock } = setUp();
    fail(breaker, 5);
    clock.at += 10_000;
    const probe = takePermit(breaker);
    probe.answering();
    if (succeeds) probe.succeeded();
    fail(breaker, 1);
    expect(breaker.state).toBe(expected);
  }
});

test('reports of permits from before the breaker opened are ignored', () => {
  const { breaker, clock } = setUp();
  const slow = takePermit(breaker);
  const slower = takePermit(breaker);
  fail(breaker, 5);
  slow.succeeded();
  expect(breaker.state).toBe('open');
  clock.at += 10_000;
  takePermit(breaker).succeeded();
  fail(breaker, 4);
  slower.failed();
  expect(breaker.state).toBe('closed');
});

test('a clock that steps back does not keep the breaker open', () => {
  const { breaker, clock } = setUp();
  fail(breaker, 5);
  clock.at -= 3_600_000;
  expect(breaker.passable).toBe(true);
});

test('in any history there is at most one probe at a time, and five failures in a row are needed to open', () => {
  const step = fc.oneof(
    fc.constant('acquire' as const),
    fc.constantFrom('answering', 'succeeded', 'failed', 'released'),
    fc.integer({ min: 1, max: 12_000 }),
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(step, fc.nat(20)), { maxLength: 120 }), history => {
      const { breaker, clock } = setUp();
      const permits: { permit: Permit; probe: boolean; done: boolean; answered: boolean }[] = [];
      for (const [what, pick] of history) {
        if (typeof what === 'number') {
          clock.at += what;
        } else if (what === 'acquire') {
          const before = breaker.state;
          const permit = breaker.acquire();
          if (permit !== undefined)
            permits.push({ permit, probe: before === 'half_open', done: false, answered: false });
        } else {
          const chosen = permits[pick % Math.max(permits.length, 1)];
          if (chosen === undefined) continue;
          chosen.permit[what]();
          if (what === 'answering') chosen.answered = true;
          else chosen.done = true;
        }
        const probes = permits.filter(each => each.probe && !each.done && !each.answered);
        if (breaker.state === 'half_open' && probes.length > 1) return false;
        if (breaker.state === 'open' && permits.filter(each => each.done).length < 5) return false;
      }
      return true;
    }),
  );
});

/** Makes a request of an account; `text` distinguishes requests. */
const caller = (accountId: number, text: string): BreakerCaller => ({ hold: { accountId }, request: { text } });

test('failures of one account do not open the breaker while another account uses the route', () => {
  const { breaker, clock } = setUp();
  breaker.acquire(caller(2, 'well'))?.succeeded();
  for (let time = 0; time < 20; time += 1) breaker.acquire(caller(1, `bad ${time}`))?.failed();
  expect(breaker.state).toBe('closed');
  // One of the failures in a row is the other account's.
  breaker.acquire(caller(2, 'unlucky'))?.failed();
  expect(breaker.state).toBe('open');
  clock.at += 10_000;
  breaker.acquire(caller(2, 'well'))?.succeeded();
  expect(breaker.state).toBe('closed');
  clock.at += 60_000;
  // No other account has used the route in the last minute.
  for (let time = 0; time < 5; time += 1) breaker.acquire(caller(1, `bad ${time}`))?.failed();
  expect(breaker.state).toBe('open');
});

test('the same request counts once, however often it fails', () => {
  const { breaker } = setUp();
  for (let time = 0; time < 20; time += 1) breaker.acquire(caller(1, 'the same'))?.failed();
  for (const text of ['a', 'b', 'c']) breaker.acquire(caller(1, text))?.failed();
  expect(breaker.state).toBe('closed');
  breaker.acquire(caller(1, 'd'))?.failed();
  expect(breaker.state).toBe('open');
});
