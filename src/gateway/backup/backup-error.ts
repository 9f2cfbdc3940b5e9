/** Says why a backup or a restore was refused or failed, in words for the operator. Contains no secrets. */
export class BackupError extends Error {
  override readonly name = 'BackupError';

  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
  }
}
