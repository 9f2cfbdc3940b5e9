/** Whether attacks have their full size: in `npm run test:attack`, not in `npm test`. */
export const isFullSize = process.env['ATTACK_SIZE'] === 'full';

/** Returns `full` at full size, else `small`. */
export function attackSize(full: number, small: number): number {
  return isFullSize ? full : small;
}
