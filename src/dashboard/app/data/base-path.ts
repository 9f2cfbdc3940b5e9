/** The part of a page that is read; absent in tests without a browser. */
interface Page {
  querySelector(selector: string): { readonly content?: string } | null;
}

/** The path of the dashboard at this address, such as `/dashboard`, or `/ai/dashboard` behind a proxy that removes `/ai`. The gateway writes it into the page. */
export const basePath = readBasePath();

function readBasePath(): string {
  const { document: page } = globalThis as { readonly document?: Page };
  const written = page?.querySelector('meta[name="tollgate-base"]')?.content;
  return written?.startsWith('/') === true ? written.replace(/\/$/, '') : '/dashboard';
}
