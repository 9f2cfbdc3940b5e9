import { spawn } from 'node:child_process';
import process from 'node:process';

/** Opens a URL in the browser that `BROWSER` names, or in the default browser of the desktop. Does nothing with `BROWSER=none` or without a desktop. Never throws. */
export function openBrowser(url: string, env: Readonly<Record<string, string | undefined>>): void {
  const [program, ...args] = findBrowser(env);
  if (program === undefined) return;
  spawn(program, [...args, url], { detached: true, stdio: 'ignore' })
    // Ignored, because the link was also printed and can be opened elsewhere.
    .on('error', () => undefined)
    .unref();
}

function findBrowser({
  BROWSER: named,
  DISPLAY: x11,
  WAYLAND_DISPLAY: wayland,
}: Readonly<Record<string, string | undefined>>): string[] {
  if (named === 'none') return [];
  if (named !== undefined && named !== '') return [named];
  if (process.platform === 'darwin') return ['open'];
  if (process.platform === 'win32') return ['cmd', '/c', 'start', ''];
  return x11 === undefined && wayland === undefined ? [] : ['xdg-open'];
}
