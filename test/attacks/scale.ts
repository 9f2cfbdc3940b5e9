/** How large attacks are: 1 with `npm run test:attack`, less in `npm test`. */
export const isFullSize = process.env['ATTACK_SIZE'] === 'full';

/** Returns the size of an attack, which is smaller in `npm test`. */
export function attackSize(full: number, small: number): number {
  return isFullSize ? full : small;
}
