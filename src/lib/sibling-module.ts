import { extname } from 'node:path';

/**
 * Returns the address of a module in the same folder as another one. `base`: the other's `import.meta.url`; `name`:
 * without its ending, which is that of the other: `.ts` in a checkout, `.js` in a built package.
 */
export function siblingModule(base: string, name: string): URL {
  return new URL(`./${name}${extname(new URL(base).pathname)}`, base);
}
