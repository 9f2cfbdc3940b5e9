import chromium from '@sparticuz/chromium';
import type { TestProject } from 'vitest/node';

declare module 'vitest' {
  export interface ProvidedContext {
    /** The browser's program. */
    readonly chromiumPath: string;
  }
}

/** Unpacks the browser before any test file starts: files that run at once would write it over each other. */
export async function setup(project: TestProject): Promise<void> {
  project.provide('chromiumPath', await chromium.executablePath());
}
