import { Button, Menu } from '@mantine/core';
import { useState } from 'react';

/**
 * Returns true if the text is now on the clipboard; a browser without one (plain http on another host) gets a selection to copy by hand.
 */
async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** Copies a text, and confirms it. */
export function CopyButton({ text, label }: { readonly text: string; readonly label: string }) {
  const [state, setState] = useState<'idle' | 'done' | 'failed'>('idle');
  const copy = async (): Promise<void> => setState((await copyText(text)) ? 'done' : 'failed');
  return (
    <button type="button" className="copy" aria-label={`Copy ${label}`} onClick={() => void copy()}>
      {state === 'idle' ? 'Copy' : state === 'done' ? 'Copied' : 'Select and copy by hand'}
    </button>
  );
}

/** Lines of code with a button that copies them. */
export function Snippet({ text, label }: { readonly text: string; readonly label: string }) {
  return (
    <div className="snippet">
      <pre tabIndex={0} aria-label={label}>
        {text}
      </pre>
      <CopyButton text={text} label={label} />
    </div>
  );
}

/** The same view by other means; absent ones do not exist. */
export interface OtherWays {
  /** Which of the view's calls it is, if there are several. */
  readonly of?: string;
  readonly curl?: string;
  readonly cli?: string;
}

/** The menu that copies the view's own calls as curl and as a command line. */
export function CopyAs({ ways }: { readonly ways: readonly OtherWays[] }) {
  const [done, setDone] = useState<string>();
  const copy = async (name: string, text: string): Promise<void> => {
    setDone((await copyText(text)) ? `Copied as ${name}` : 'Not copied: the browser forbids it');
  };
  return (
    <>
      <span role="status" className="small quiet">
        {done}
      </span>
      <Menu position="bottom-end" withinPortal={false}>
        <Menu.Target>
          <Button size="xs" variant="default">
            Copy as
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {ways.flatMap(({ of, curl, cli }) =>
            Object.entries({ curl, CLI: cli }).map(([kind, text]) => {
              const name = of === undefined ? kind : `${kind}: ${of}`;
              return (
                text !== undefined && (
                  <Menu.Item key={name} onClick={() => void copy(name, text)}>
                    {name}
                  </Menu.Item>
                )
              );
            }),
          )}
        </Menu.Dropdown>
      </Menu>
    </>
  );
}
