import { Button, Menu } from '@mantine/core';
import { useState } from 'react';

/**
 * Copies a text to the clipboard, and returns whether that worked. If the browser gives no access to it (plain http on another host), the
 * text is shown for copying by hand.
 */
async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** A button that copies a text, and confirms it. */
export function CopyButton({ text, label }: { readonly text: string; readonly label: string }) {
  const [state, setState] = useState<'idle' | 'done' | 'failed'>('idle');
  const copy = async (): Promise<void> => setState((await copyText(text)) ? 'done' : 'failed');
  return (
    <button type="button" className="copy" aria-label={`Copy ${label}`} onClick={() => void copy()}>
      {state === 'idle' ? 'Copy' : state === 'done' ? 'Copied' : 'Select and copy by hand'}
    </button>
  );
}

/** Shows lines of code, with a button that copies them. */
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

/** Other ways to get the data of a view: curl or a command; an absent one does not exist. */
export interface OtherWays {
  /** The name of the call, if a view has several. */
  readonly of?: string;
  readonly curl?: string;
  readonly cli?: string;
}

/** The menu that copies the calls of a view as curl and as a command. */
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
