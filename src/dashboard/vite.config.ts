import { defineConfig } from 'vite';

/** How Vite bundles the dashboard into `dist/dashboard`. */
// oxlint-disable-next-line import/no-default-export -- Vite loads it so
export default defineConfig({
  root: import.meta.dirname,
  base: '/dashboard/',
  cacheDir: '../../node_modules/.cache/vite-dashboard',
  build: {
    outDir: '../../dist/dashboard',
    emptyOutDir: true,
    // No data: URLs, so that img-src and font-src of the Content-Security-Policy stay 'self'.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    license: { fileName: 'licenses.md' },
    manifest: 'manifest.json',
    // Libraries mark modules "use client"; there is no server rendering here.
    rolldownOptions: { checks: { moduleLevelDirective: false } },
    modulePreload: { polyfill: false },
    target: 'baseline-widely-available',
    // light-dark() stays as it is: a polyfill can't see the scheme that the viewer has chosen.
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
  },
});
