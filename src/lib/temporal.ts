/** Gives older versions of Node.js, which packages run on, the `Temporal` of newer ones. To be imported, for its effect alone, by every module that uses it. */
if (!('Temporal' in globalThis)) await import('temporal-polyfill/global');
export {};
