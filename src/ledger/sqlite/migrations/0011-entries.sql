-- As before, but an entry says what it added to its one pocket: the key's, the group's, or, where both are NULL, the account's. A move is two of them. amount: 0 of
-- a write-off, which is written_off. balance_after: of the pocket.
CREATE TABLE entry_of_pocket (
  account_id INTEGER NOT NULL REFERENCES account (id),
  number INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('opening', 'credit', 'move', 'write_off', 'plan_price')),
  key_id INTEGER REFERENCES api_key (id),
  group_id INTEGER REFERENCES key_group (id) CHECK (group_id IS NULL OR key_id IS NULL),
  amount INTEGER NOT NULL CHECK ((amount = 0) = (kind = 'write_off')),
  balance_after INTEGER NOT NULL,
  written_off INTEGER NOT NULL CHECK ((written_off > 0) = (kind = 'write_off')),
  usage_id INTEGER CHECK ((usage_id IS NULL) = (kind <> 'write_off')),
  period INTEGER CHECK ((period IS NULL) = (kind <> 'plan_price')),
  note TEXT NOT NULL,
  reference TEXT,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (account_id, number),
  FOREIGN KEY (account_id, period) REFERENCES plan_period (account_id, number)
) STRICT, WITHOUT ROWID;

-- Entries of before by pocket. A request was debited when it ended, which is its admission and its latency later.
INSERT INTO entry_of_pocket
  WITH pocketed AS (
    SELECT account_id, number, 0 AS half, iif(kind = 'credit' AND number = 1 AND note = 'first balance', 'opening', kind) AS kind,
      NULL AS key_id, NULL AS group_id, iif(kind = 'credit', amount, -amount) AS amount, 0 AS written_off, usage_id, period,
      CASE WHEN kind <> 'move' THEN note ELSE iif(amount > 0, 'to ', 'from ') || iif(key_id IS NULL, 'group ' || group_id, 'key ' || key_id) END AS note,
      reference, at_ms
    FROM entry WHERE kind <> 'write_off'
    UNION ALL SELECT account_id, number, 1, kind, key_id, group_id, amount, 0, NULL, NULL, '', NULL, at_ms FROM entry WHERE kind = 'move'
    UNION ALL SELECT e.account_id, e.number, 0, e.kind, iif(u.payer = 1, u.key_id, NULL), u.payer_group, 0, e.amount, e.usage_id, NULL, e.note, NULL, e.at_ms
      FROM entry e JOIN usage u ON u.id = e.usage_id WHERE e.kind = 'write_off'
  ), changes AS (
    SELECT account_id, key_id, group_id, number, half, amount, at_ms FROM pocketed
    UNION ALL SELECT account_id, iif(payer = 1, key_id, NULL), payer_group, NULL, NULL, -cost, created_at_ms + latency_ms FROM usage WHERE cost > 0
  ), summed AS (
    SELECT account_id, number, half,
      sum(amount) OVER (PARTITION BY account_id, key_id, group_id ORDER BY at_ms, number IS NOT NULL, number, half ROWS UNBOUNDED PRECEDING) AS balance_after
    FROM changes
  )
  SELECT p.account_id, row_number() OVER (PARTITION BY p.account_id ORDER BY p.number, p.half), kind, key_id, group_id, amount, balance_after, written_off,
    usage_id, period, note, reference, at_ms
  FROM pocketed p JOIN summed s ON s.account_id = p.account_id AND s.number = p.number AND s.half = p.half
  ORDER BY p.account_id, p.number, p.half;
DROP TABLE entry;
ALTER TABLE entry_of_pocket RENAME TO entry;
UPDATE account SET entries = (SELECT count(*) FROM entry WHERE account_id = account.id);

CREATE UNIQUE INDEX entry_reference ON entry (reference) WHERE reference IS NOT NULL;
CREATE TRIGGER entry_is_never_changed BEFORE UPDATE ON entry BEGIN SELECT raise(ABORT, 'entries are only inserted'); END;
CREATE TRIGGER entry_is_never_deleted BEFORE DELETE ON entry BEGIN SELECT raise(ABORT, 'entries are only inserted'); END;
