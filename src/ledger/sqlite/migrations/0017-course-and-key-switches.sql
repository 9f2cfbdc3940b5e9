-- course: the tries of a request and the extensions of its hold, as `writeCourse` of src/ledger/course.ts writes them; NULL: one try that needed no choice, and no extension.
ALTER TABLE usage ADD COLUMN course TEXT;

-- keep_bodies: which bodies of the key's requests are kept; NULL: as the configuration says. paused: the account's own switch, beside the operator's `state`.
ALTER TABLE api_key ADD COLUMN keep_bodies TEXT CHECK (keep_bodies IN ('off', 'errors', 'all'));
ALTER TABLE api_key ADD COLUMN paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1));
