/** Defines `Temporal` in older versions of Node.js, which lack it. Every module that uses `Temporal` imports this one for its side effect. */
if (!('Temporal' in globalThis)) await import('temporal-polyfill/global');
export {};
