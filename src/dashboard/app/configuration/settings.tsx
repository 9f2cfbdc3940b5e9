import { NativeSelect } from '@mantine/core';
import { useState } from 'react';
import { Snippet } from '../parts/copy.tsx';
import { readSections } from './settings-text.ts';

/** Shows all settings in use, one section at a time, because a catalogue can have hundreds of models. */
export function Settings({ json }: { readonly json: string }) {
  const [name, setName] = useState('general');
  const sections = readSections(json);
  const shown = sections.find(section => section.name === name) ?? sections[0];
  return (
    <div className="settings">
      <NativeSelect
        label="Settings"
        description="With the names and units of the configuration file, and every default. Secrets are ***."
        value={shown?.name ?? ''}
        data={sections.map(section => ({ value: section.name, label: `${section.name} (${section.size})` }))}
        onChange={event => setName(event.currentTarget.value)}
      />
      {shown !== undefined && <Snippet text={shown.text} label={`Settings of ${shown.name}`} />}
    </div>
  );
}
