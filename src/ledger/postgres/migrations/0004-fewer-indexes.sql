-- Each admission wrote 64 bytes of log for it. Live holds are few, and what asks for those of an account reads all of them; those that end by themselves have hold_expiry.
DROP INDEX hold_of_account;
