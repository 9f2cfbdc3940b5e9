/**
 * Mistakes that an engineer could make in the engine, each as one edit of its source. The model test must find every one
 * (`mutants.ts`); one that it does not find shows a hole in the traces.
 */
export interface Mutant {
  readonly mistake: string;
  /** Below src/store/sqlite. */
  readonly file: string;
  /** Stands in the file exactly once. */
  readonly from: string;
  readonly to: string;
}

export const mutants: readonly Mutant[] = [
  {
    mistake: 'what others hold is not subtracted from the account’s balance',
    file: 'funds.ts',
    from: 'used: key.accountHeld, max: key.accountBalance',
    to: 'used: 0n, max: key.accountBalance',
  },
  {
    mistake: 'what others hold is not subtracted from the key’s balance',
    file: 'funds.ts',
    from: 'used: key.held, max: key.balance ?? 0n',
    to: 'used: 0n, max: key.balance ?? 0n',
  },
  {
    mistake: 'a key whose balance is 0 spends from the account',
    file: 'funds.ts',
    from: "return key.balance === null ? 'account' : 'key_balance'",
    to: "return key.balance === null || key.balance === 0n ? 'account' : 'key_balance'",
  },
  {
    mistake: 'the daily cap counts only what was settled',
    file: 'funds.ts',
    from: 'const used = day === undefined ? 0n : day.spent + day.held;',
    to: 'const used = day === undefined ? 0n : day.spent;',
  },
  {
    mistake: 'the monthly cap counts only what was settled',
    file: 'funds.ts',
    from: 'const used = days === undefined ? 0n : days.spent + days.held;',
    to: 'const used = days === undefined ? 0n : days.spent;',
  },
  {
    mistake: 'tokens are priced rounded down',
    file: 'funds.ts',
    from: 'return (BigInt(tokens) * picoUsd + picoPerNano - 1n) / picoPerNano;',
    to: 'return (BigInt(tokens) * picoUsd) / picoPerNano;',
  },
  {
    mistake: 'one token more than the funds pay',
    file: 'funds.ts',
    from: 'return Number(all) - held;',
    to: 'return Number(all) - held + 1;',
  },
  {
    mistake: 'the last day of the month belongs to no month',
    file: 'calendar.ts',
    from: 'last: dayOf(endMs) - 1, endMs',
    to: 'last: dayOf(endMs) - 2, endMs',
  },
  {
    mistake: 'the month goes on into the next month’s first day',
    file: 'calendar.ts',
    from: 'last: dayOf(endMs) - 1, endMs',
    to: 'last: dayOf(endMs), endMs',
  },
  {
    mistake: 'a minute is one millisecond too long',
    file: 'rings.ts',
    from: '(ring.times[ring.head] ?? 0) <= nowMs - minuteMs',
    to: '(ring.times[ring.head] ?? 0) < nowMs - minuteMs',
  },
  {
    mistake: 'a minute is one second too short',
    file: 'rings.ts',
    from: '(ring.times[ring.head] ?? 0) <= nowMs - minuteMs',
    to: '(ring.times[ring.head] ?? 0) <= nowMs - minuteMs + 1000',
  },
  {
    mistake: 'what has left the minute stays away when the clock steps back',
    file: 'rings.ts',
    from: 'if (ring === undefined || nowMs < ring.askedAtMs) {',
    to: 'if (ring === undefined) {',
  },
  {
    mistake: 'admissions that are later than now do not stand in order',
    file: 'rings.ts',
    from: 'while (place > ring.head && (ring.times[place - 1] ?? 0) > nowMs) place--;',
    to: '',
  },
  {
    mistake: 'a minute is not read anew after a batch was undone',
    file: 'windows.ts',
    from: '    this.#keyMinutes.clear();\n',
    to: '',
  },
  {
    mistake: 'a new minute limit does not see the admissions before it',
    file: 'administration.ts',
    from: '    this.#windows.forget(key.id);\n',
    to: '',
  },
  {
    mistake: 'a voided request frees its place in the minute after a restart',
    file: 'windows.ts',
    from: "      times('voided', owner, 'admitted_at_ms'),\n",
    to: '',
  },
  {
    mistake: 'free windows are the key’s, not the account’s',
    file: 'windows.ts',
    from: 'this.#freeMinutes.at(key.accountId, nowMs)',
    to: 'this.#freeMinutes.at(key.id, nowMs)',
  },
  {
    mistake: 'the 201st free request of a day passes',
    file: 'windows.ts',
    from: 'Math.max(0, freeDayMax - used), resetAtMs',
    to: 'Math.max(0, freeDayMax + 1 - used), resetAtMs',
  },
  {
    mistake: 'a request is not counted in its day',
    file: 'windows.ts',
    from: 'DO UPDATE SET requests = requests + 1, held = held + excluded.held,',
    to: 'DO UPDATE SET held = held + excluded.held,',
  },
  {
    mistake: 'a full window refuses one request too late',
    file: 'admissions.ts',
    from: 'if (window.remaining === 0) return windowDenial',
    to: 'if (window.remaining < 0) return windowDenial',
  },
  {
    mistake: 'the order of refusals: models after windows',
    file: 'admissions.ts',
    from: "    if (key.allowedModels?.includes(command.model) === false) return denied('model_not_allowed');\n    for (const window of windows) if (window.remaining === 0) return windowDenial(window, windows, nowMs);\n",
    to: "    for (const window of windows) if (window.remaining === 0) return windowDenial(window, windows, nowMs);\n    if (key.allowedModels?.includes(command.model) === false) return denied('model_not_allowed');\n",
  },
  {
    mistake: 'a repeated admit holds again',
    file: 'engine.ts',
    from: 'const fresh = command.id > this.#highestId;',
    to: 'const fresh = true;',
  },
  {
    mistake: 'a repeat of another request under the same id is taken for the same',
    file: 'admissions.ts',
    from: 'known.model_id === BigInt(this.#dictionary.model(command.model)) &&',
    to: '',
  },
  {
    mistake: 'an empty balance admits what costs next to nothing',
    file: 'admissions.ts',
    from: 'leftOf(fund) < (least > 0n ? least : 1n)',
    to: 'leftOf(fund) < least',
  },
  {
    mistake: 'a revoked key is admitted by its id',
    file: 'admissions.ts',
    from: "if (key === undefined || key.state === 'revoked') return this.#noKey(command);",
    to: 'if (key === undefined) return this.#noKey(command);',
  },
  {
    mistake: 'an extension is not counted against the caps of its day',
    file: 'holds.ts',
    from: '    if (more.by > 0n) this.#day.run(more.by, 0n, 0n, hold.keyId, dayOf(hold.admittedAtMs));\n',
    to: '',
  },
  {
    mistake: 'an extension is judged by the caps of today',
    file: 'extensions.ts',
    from: 'this.#funds.of(key, hold.payer, hold.admittedAtMs)',
    to: 'this.#funds.of(key, hold.payer, Math.max(hold.admittedAtMs, hold.admittedAtMs + 86_400_000))',
  },
  {
    mistake: 'an amount that the funds do not pay is extended',
    file: 'extensions.ts',
    from: 'if (by < 0n || by > left) return answer',
    to: 'if (by < 0n) return answer',
  },
  {
    mistake: 'a cost over the hold takes what other holds cover',
    file: 'settlements.ts',
    from: 'const covered = held + left;',
    to: 'const covered = held + left + 1n;',
  },
  {
    mistake: 'a cost over the hold is never debited',
    file: 'settlements.ts',
    from: 'const covered = held + left;',
    to: 'const covered = held;',
  },
  {
    mistake: 'a settled request is counted on the day of its end',
    file: 'settlements.ts',
    from: 'this.#day.run(hold.accountId, dayOf(hold.admittedAtMs), ...sums);',
    to: 'this.#day.run(hold.accountId, dayOf(nowMs), ...sums);',
  },
  {
    mistake: 'the rollup by the hour misses one kind of token',
    file: 'settlements.ts',
    from: 'cache_write_1h = cache_write_1h + excluded.cache_write_1h,',
    to: '',
  },
  {
    mistake: 'a repeat with other tokens of the same cost is taken for the same settle',
    file: 'settlements.ts',
    from: '      sameBuckets(stored, command.usage);',
    to: '      true;',
  },
  {
    mistake: 'what is written off has no entry',
    file: 'settlements.ts',
    from: '    moves.writeOff(key, hold.id, writtenOff, nowMs);\n',
    to: '',
  },
  {
    mistake: 'a void answers for a settled request',
    file: 'settlements.ts',
    from: 'holds.voidedFor(id) === reason && this.#find.get(id) === undefined',
    to: 'holds.voidedFor(id) === reason',
  },
  {
    mistake: 'releasing a hold leaves the key’s day held',
    file: 'holds.ts',
    from: 'this.#day.run(-hold.held, debit, own ? debit : 0n, hold.keyId, dayOf(hold.admittedAtMs));',
    to: 'this.#day.run(0n, debit, own ? debit : 0n, hold.keyId, dayOf(hold.admittedAtMs));',
  },
  {
    mistake: 'what a revoked key gets back stays with it',
    file: 'holds.ts',
    from: '    this.#moves.toKey(key, -left, atMs);\n',
    to: '',
  },
  {
    mistake: 'a hold expires a millisecond late',
    file: 'holds.ts',
    from: 'if (nowMs < this.#nextExpiryMs) return;',
    to: 'if (nowMs <= this.#nextExpiryMs) return;',
  },
  {
    mistake: 'the next expiry is not noticed when a hold is placed',
    file: 'holds.ts',
    from: 'this.#nextExpiryMs = Math.min(this.#nextExpiryMs, expiresAtMs);',
    to: '',
  },
  {
    mistake: 'a restart gives back other services’ holds too',
    file: 'holds.ts',
    from: "'SELECT * FROM hold WHERE expires_at_ms IS NULL ORDER BY id'",
    to: "'SELECT * FROM hold ORDER BY id'",
  },
  {
    mistake: 'a move takes what a hold covers',
    file: 'moves.ts',
    from: 'key.accountBalance - key.accountHeld : (key.balance ?? 0n) - key.held',
    to: 'key.accountBalance : (key.balance ?? 0n) - key.held',
  },
  {
    mistake: 'a key’s balance is given back although it is held',
    file: 'moves.ts',
    from: ': (key.balance ?? 0n) - key.held;',
    to: ': key.balance ?? 0n;',
  },
  {
    mistake: 'a negative credit takes what a hold covers',
    file: 'administration.ts',
    from: 'account.balance - account.held + amount < 0n && amount < 0n',
    to: 'account.balance + amount < 0n && amount < 0n',
  },
  {
    mistake: 'a revoked key keeps its money',
    file: 'administration.ts',
    from: "if (command.state === 'revoked' && key.balance !== null) this.#moves",
    to: "if (command.state === 'disabled' && key.balance === null) this.#moves",
  },
  {
    mistake: 'one broken command takes its batch with it',
    file: 'engine.ts',
    from: "      this.#db.exec('ROLLBACK TO one');\n",
    to: "      this.#db.exec('ROLLBACK; BEGIN IMMEDIATE; SAVEPOINT one');\n",
  },
];
