import { defineConfig } from 'vite';

/** How Vite bundles the dashboard into `dist/dashboard`. */
// oxlint-disable-next-line import/no-default-export -- Vite loads the default export
export default defineConfig({
  root: import.meta.dirname,
  // Relative, so that the pages work below any path: `PageFiles` writes the path into `index.html`.
  base: './',
  cacheDir: '../../node_modules/.cache/vite-dashboard',
  build: {
    outDir: '../../dist/dashboard',
    emptyOutDir: true,
    // Without data: URLs, img-src and font-src of the Content-Security-Policy can be 'self'.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    license: { fileName: 'licenses.md' },
    manifest: 'manifest.json',
    // Ignores the "use client" in libraries, because there is no server rendering here.
    rolldownOptions: { checks: { moduleLevelDirective: false } },
    modulePreload: { polyfill: false },
    target: 'baseline-widely-available',
    // These browsers support light-dark(), so that it is not replaced: a replacement would ignore the scheme that the viewer has chosen.
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
  },
});
