import chromium from '@sparticuz/chromium';
import type { TestProject } from 'vitest/node';
import { buildDashboard } from '../../scripts/build-dashboard.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** The browser's program. */
    readonly chromiumPath: string;
  }
}

/** Builds the pages that are tested, and unpacks the browser before any test file starts: files that run at once would write it over each other. */
export async function setup(project: TestProject): Promise<void> {
  await buildDashboard();
  project.provide('chromiumPath', await chromium.executablePath());
}
