import chromium from '@sparticuz/chromium';
import type { TestProject } from 'vitest/node';
import { buildDashboard } from '../../scripts/build-dashboard.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** The path of the browser's program. */
    readonly chromiumPath: string;
  }
}

/** Builds the dashboard and unpacks the browser before any test file starts, because test files that run at the same time would overwrite each other's copy. */
export async function setup(project: TestProject): Promise<void> {
  await buildDashboard();
  project.provide('chromiumPath', await chromium.executablePath());
}
