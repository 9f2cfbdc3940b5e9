/** Why a backup or a restore was refused or failed, in words for the operator. Nothing secret is in them. */
export class BackupError extends Error {
  override readonly name = 'BackupError';

  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
  }
}
