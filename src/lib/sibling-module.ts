import { extname } from 'node:path';

/**
 * Returns the URL of a module in the same folder as another one. `base`: the `import.meta.url` of the other module. `name`:
 * the name without extension; both modules have the same: `.ts` in a checkout, `.js` in a built package.
 */
export function siblingModule(base: string, name: string): URL {
  return new URL(`./${name}${extname(new URL(base).pathname)}`, base);
}
